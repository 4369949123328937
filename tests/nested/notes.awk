# Checks what the host noted beside a guest's log; for a scenario with -v notes=polls or -v notes=steal. Uses fail() of
# check.awk.
#
# polls: `figures at=PLACE vcpu=N boots=N control=N halts=N tried=N guest=N told=N`, counters of lull. Places with two notes
#        for each vCPU have halts in between.
# steal: `steal BEFORE0 BEFORE1 TICKS0 TICKS1 AFTER0 AFTER1`: ns that the threads of the vCPUs waited, before and after the
#        guest was asked for its ticks of 10 ms. `waited TOTAL0 TOTAL1`: in the end, after the figures. -v mode=vmm: lull tells
#        the guest, and says how much.

# What is on its way: the guest looks at its own ticks, which come when it runs, and the host counts when a wait ends.
BEGIN { slack = 150e6 }

function at(place, vcpu, control) {
	if ((place, vcpu) in seen == 0) fail("no figures of vCPU " vcpu " at '" place "'")
	else if (controls[place, vcpu] != control) fail("poll control of vCPU " vcpu " at '" place "' is " controls[place, vcpu] ", expected " control)
}

/^figures / {
	for (i = 2; i <= NF; i++) {
		split($i, pair, "=")
		f[pair[1]] = pair[2]
	}
	place = f["at"]; vcpu = f["vcpu"]; key = place SUBSEP vcpu
	controls[key] = f["control"]
	told[vcpu] = f["told"]
	boots_at[place] = f["boots"]
	tried[key] = f["tried"]
	if (key in seen) {
		more_halts[key] = f["halts"] - halts[key]
		more_tries[key] = f["tried"] - tries[key]
		more_guest[key] = f["guest"] - guests[key]
	}
	halts[key] = f["halts"]; tries[key] = f["tried"]; guests[key] = f["guest"]
	seen[key] = 1
}

/^GUEST cpuidle=/ { cpuidle = cpuidle " " substr($0, 15) }

function check_polls(   vcpu) {
	if (cpuidle != " none haltpoll none") fail("cpuidle drivers of the three kernels:" cpuidle)
	if (boots_at["reset"] != 2) fail("expected the second boot at 'reset', found " boots_at["reset"])
	for (vcpu = 0; vcpu < 2; vcpu++) {
		at("plain", vcpu, 1)
		at("itself", vcpu, 0)
		at("offline", vcpu, vcpu)
		at("online", vcpu, 0)
		at("reset", vcpu, 1)
		if (tried["plain", vcpu] + 0 == 0) fail("vCPU " vcpu " was never polled for")
		if (more_halts["itself", vcpu] < 10) fail("vCPU " vcpu " hardly halted: " more_halts["itself", vcpu])
		if (more_tries["itself", vcpu] != 0) fail("vCPU " vcpu " polls itself, and was polled for " more_tries["itself", vcpu] " times")
		if (chip == "user" && more_guest["itself", vcpu] < 10) fail("refusals were not counted for vCPU " vcpu)
		if (more_tries["reset", vcpu] + 0 == 0) fail("vCPU " vcpu " is not polled for after the reset")
	}
}

# Now and then the kernel writes into the middle of a line: such a line does not count.
/^GUEST steal [0-9]+ [0-9]+\r?$/ {
	sub(/\r$/, "")
	for (i = 3; i <= NF; i++) {
		if ($i + 0 < newest[i - 3]) fail("steal of CPU " i - 3 " went back from " newest[i - 3] " to " $i)
		newest[i - 3] = $i + 0
		if (!(i - 3 in oldest)) oldest[i - 3] = $i + 0
		reads++
	}
}

/^steal / {
	samples++
	for (vcpu = 0; vcpu < 2; vcpu++) {
		before = $(2 + vcpu) - start[vcpu]; ns = ($(4 + vcpu) - first[vcpu]) * 1e7; after = $(6 + vcpu) - start[vcpu]
		if (samples == 1) {
			start[vcpu] = $(2 + vcpu); late[vcpu] = $(6 + vcpu) - $(2 + vcpu); first[vcpu] = $(4 + vcpu)
			continue
		}
		waited[vcpu] = after
		guest_ns[vcpu] = ns
		if (ns < before - late[vcpu] - slack || ns > after + slack)
			fail(sprintf("vCPU %d waited for %.0f to %.0f ms, and the guest says %.0f", vcpu, (before - late[vcpu]) / 1e6, after / 1e6, ns / 1e6))
	}
}

/^waited / { total[0] = $2; total[1] = $3 }

function check_steal(   vcpu, ticks) {
	if (samples < 6 || reads < 50) fail("expected 6 samples and 50 reads, found " samples + 0 " and " reads + 0)
	for (vcpu = 0; vcpu < 2; vcpu++) {
		if (waited[vcpu] < 1e9) fail(sprintf("vCPU %d had to wait for %.0f ms only", vcpu, waited[vcpu] / 1e6))
		ticks = newest[vcpu] * 1e7
		if (mode == "vmm" && (told[vcpu] < ticks - 1e7 || told[vcpu] > total[vcpu]))
			fail(sprintf("lull told vCPU %d of %.0f ms, and the guest says %.0f", vcpu, told[vcpu] / 1e6, ticks / 1e6))
		if (mode == "kvm" && told[vcpu] != 0) fail("lull claims to have told vCPU " vcpu " what KVM told it")
	}
}

END {
	if (notes == "polls") check_polls()
	if (notes == "steal") check_steal()
}
