# Prints the problem lines of a guest's console log, normalised so that two boots can be
# compared: no level, no timestamp, no numbers.
#   1. all that the guest's init found in the kernel log (errors, warnings, see init/guest)
#   2. lines that look like trouble anywhere on the console, shutdown included

function normal(s) {
	sub(/^<[0-9]+>/, "", s)
	sub(/^\[ *[0-9]+\.[0-9]+\] */, "", s)
	gsub(/0x[0-9a-fA-F]+/, "#", s)
	gsub(/[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]*[0-9][0-9a-f]*/, "#", s)
	gsub(/[0-9]+/, "#", s)
	sub(/[ \t]+$/, "", s)
	return s
}

{ sub(/\r$/, "") }
/^GUEST problems begin/ { inside = 1; next }
/^GUEST problems end/ { inside = 0; next }
/^GUEST log begin/ { quiet = 1; next }
/^GUEST log end/ { quiet = 0; next }
inside && /\] Code: / { next }
# A message of the kernel's in the middle of a line of init's: two lines.
inside && match($0, /[^>]\[ *[0-9]+\.[0-9]+\] /) { print normal(substr($0, RSTART + 1)); $0 = substr($0, 1, RSTART) }
inside { print normal($0); next }
quiet { next }
/BIOS bug|[Ff]irmware [Bb]ug|APIC timer disabled|Call Trace|rcu.*(stall|starved)|WARNING:|BUG:|Oops|[Kk]ernel panic|lockup|nobody cared|unchecked MSR|hung task|general protection/ {
	print normal($0)
}
