/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_balloon.c - how much of a guest's memory is resident, by /proc/self/smaps, while the guest balloon gives it up,
 * takes it back and reports it as free. The target is moved through the public interface while it runs. TAP.
 *
 * usage: test_balloon GUEST
 */
#include <lull.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MiB(n)    ((uint64_t)(n) << 20)
#define RAM       MiB(64)
#define GIVE      MiB(8)
#define POOL      MiB(16)
#define SLACK     MiB(1) /* of other pages that come and go */
#define STEPS     6
#define TIMEOUT_S 60

static int tests, failed;

static void tap(bool ok, const char *what, const char *mode, const char *detail)
{
	printf("%sok %d - %s: %s%s%s\n", ok ? "" : "not ", ++tests, mode, what, ok ? "" : " # ", ok ? "" : detail);
	fflush(stdout);
	failed += !ok;
}

struct rig {
	struct lull_vm *vm;
	const char *ram;
	bool shared;
	atomic_uint step;
	uint64_t resident[STEPS]; /* when the guest said that it is there */
};

/* ---------------------------------------------------------------------------- what the host has of it */

/* Resident bytes of the mappings that lie in guest RAM. */
static uint64_t resident(const char *ram)
{
	uint64_t sum = 0, start, end, kib;
	bool ours = false;
	char line[512];
	FILE *f = fopen("/proc/self/smaps", "r");

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &start, &end) == 2)
			ours = start >= (uintptr_t)ram && end <= (uintptr_t)ram + RAM;
		else if (ours && sscanf(line, "Rss: %" SCNu64 " kB", &kib) == 1)
			sum += kib << 10;
	}
	if (f)
		fclose(f);
	return sum;
}

/* Bytes of the memfd that have a page, mapped or not. */
static uint64_t allocated(void)
{
	uint64_t bytes = 0;
	DIR *dir = opendir("/proc/self/fd");
	char name[300], target[64];
	struct stat st;

	for (struct dirent *e; dir && (e = readdir(dir));) {
		snprintf(name, sizeof(name), "/proc/self/fd/%s", e->d_name);
		ssize_t n = readlink(name, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		if (strstr(target, "memfd:lull-ram") && stat(name, &st) == 0)
			bytes = (uint64_t)st.st_blocks * 512;
	}
	if (dir)
		closedir(dir);
	return bytes;
}

/* On the vCPU's thread, so that the guest does not go on meanwhile. */
static void on_step(void *ctx, uint64_t offset, uint32_t bytes, uint64_t value)
{
	struct rig *r = ctx;

	(void)offset, (void)bytes;
	if (value >= STEPS)
		return;
	r->resident[value] = r->shared ? allocated() : resident(r->ram);
	atomic_store(&r->step, (unsigned)value);
}

static struct lull_balloon_stats stats(const struct rig *r)
{
	struct lull_balloon_stats s = {.size = sizeof(s)};

	if (lull_vm_balloon_stats(r->vm, &s) != 0)
		memset(&s, 0xff, sizeof(s));
	return s;
}

static bool reaches(const struct rig *r, unsigned step)
{
	const struct timespec tick = {.tv_nsec = 1000000};

	for (int i = 0; i < TIMEOUT_S * 1000 && atomic_load(&r->step) < step; i++) {
		if (lull_vm_wait(r->vm, 0, NULL, NULL) == 0)
			return false;
		nanosleep(&tick, NULL);
	}
	return atomic_load(&r->step) >= step;
}

static bool about(uint64_t got, uint64_t want)
{
	return got <= want + SLACK && want <= got + SLACK;
}

/* ------------------------------------------------------------------------------------- the guest's way */

static void look_at_steps(const struct rig *r, const char *mode)
{
	char text[200];
	const uint64_t *at = r->resident;

	snprintf(text, sizeof(text),
	         "KiB: filled %" PRIu64 ", given up %" PRIu64 ", taken back %" PRIu64 ", reported %" PRIu64,
	         at[1] >> 10, at[2] >> 10, at[3] >> 10, at[4] >> 10);
	printf("# %s: %s\n", mode, text);
	tap(at[1] >= POOL, "memory that is used is resident", mode, text);
	tap(about(at[2] + GIVE, at[1]), "what is given up is not resident any more", mode, text);
	tap(about(at[3], at[1]), "what is taken back is resident when it is used", mode, text);
	tap(about(at[4] + POOL, at[1]), "what is reported as free is not resident any more", mode, text);
}

static void run(struct rig *r, const char *mode)
{
	struct lull_exit end = {.size = sizeof(end)};
	struct lull_error err = {.text = ""};
	char text[300];

	tap(reaches(r, 1), "the guest fills memory", mode, "it does not");
	tap(lull_vm_set_balloon(r->vm, GIVE, &err) == 0 && reaches(r, 2), "a target is followed", mode, err.text);
	struct lull_balloon_stats s = stats(r);
	snprintf(text, sizeof(text), "target %" PRIu64 ", actual %" PRIu64 ", inflated %" PRIu64, s.target_bytes,
	         s.actual_bytes, s.inflated_bytes);
	tap(s.target_bytes == GIVE && s.actual_bytes == GIVE && s.inflated_bytes == GIVE && s.deflated_bytes == 0,
	    "the statistics say how far it is", mode, text);
	tap(lull_vm_set_balloon(r->vm, 0, &err) == 0 && reaches(r, 5), "and back", mode, err.text);
	int ret = lull_vm_wait(r->vm, (int64_t)TIMEOUT_S * 1000000000, &end, &err);
	snprintf(text, sizeof(text), "%d, reason %d, code %u", ret, (int)end.reason, end.code);
	tap(ret == 0 && end.reason == LULL_EXIT_DEBUG_EXIT && end.code == 0, "the guest is content", mode, text);
	look_at_steps(r, mode);
	s = stats(r);
	snprintf(text, sizeof(text),
	         "deflated %" PRIu64 ", reported %" PRIu64 ", ignored %" PRIu64 ", failures %" PRIu64
	         ", updates %" PRIu64 ", has %#x, free %" PRIu64,
	         s.deflated_bytes, s.reported_bytes, s.ignored_pages, s.failures, s.guest_updates, s.guest_has,
	         s.guest[LULL_BALLOON_FREE]);
	tap(s.actual_bytes == 0 && s.deflated_bytes == GIVE && s.reported_bytes == POOL && s.ignored_pages == 245 &&
	            s.failures == 0,
	    "every page is accounted for", mode, text);
	tap(s.guest_updates == 2 && s.guest_has == (1u << LULL_BALLOON_FREE | 1u << LULL_BALLOON_TOTAL) &&
	            s.guest[LULL_BALLOON_FREE] == 2000 && s.guest[LULL_BALLOON_TOTAL] == 2001 &&
	            s.guest[LULL_BALLOON_SWAP_IN] == 0,
	    "the guest's own figures arrive, and are asked for again", mode, text);
}

static void test(const char *guest, const char *irqchip, bool shared)
{
	struct rig r = {.shared = shared};
	struct lull_error err = {.text = ""};
	char mode[32];
	const struct lull_config config = {
		.size = sizeof(config),
		.flags = LULL_DEBUG_EXIT_RAW | (shared ? LULL_SHARED_MEMORY : 0u),
		.ram_bytes = RAM,
		.kernel = guest,
		.cmdline = "live=1 apic=x2apic",
		.irqchip = irqchip,
		.balloon = "free-page-reporting,stats=1",
	};
	const struct lull_device port = {.size = sizeof(port),
	                                 .name = "steps",
	                                 .base = 0x5000,
	                                 .length = 4,
	                                 .gsi = -1,
	                                 .write = on_step,
	                                 .ctx = &r};

	snprintf(mode, sizeof(mode), "%s, %s", irqchip, shared ? "shared" : "private");
	r.vm = lull_vm_create(&config, &err);
	if (!r.vm || lull_vm_add_device(r.vm, &port, &err) < 0) {
		tap(false, "a VM", mode, err.text);
		return;
	}
	r.ram = lull_vm_memory(r.vm, 0, RAM);
	if (lull_vm_start(r.vm, &err) < 0)
		tap(false, "a VM starts", mode, err.text);
	else
		run(&r, mode);
	lull_vm_destroy(r.vm);
}

/* ----------------------------------------------------------------------------------- the interface alone */

static void interface(void)
{
	const char *mode = "interface";
	/* sti; 1: hlt; jmp 1b */
	static const uint8_t idle[] = {0xfb, 0xf4, 0xeb, 0xfd};
	struct lull_error err = {.text = ""};
	struct lull_config config = {
		.size = sizeof(config),
		.flags = LULL_FORCE_FLAT | LULL_FLAT_REAL_MODE | LULL_RESTART_ON_RESET,
		.ram_bytes = MiB(4),
		.kernel_image = idle,
		.kernel_bytes = sizeof(idle),
	};
	struct rig r = {.vm = lull_vm_create(&config, NULL)};
	struct lull_balloon_stats s = {.size = sizeof(s)};

	tap(r.vm && lull_vm_set_balloon(r.vm, 4096, &err) == -ENODEV && err.code == -ENODEV &&
	            lull_vm_balloon_stats(r.vm, &s) == -ENODEV,
	    "without a balloon there is nothing to set", mode, err.text);
	lull_vm_destroy(r.vm);
	config.balloon = "size=5M";
	tap(!lull_vm_create(&config, &err) && strstr(err.text, "more than the guest has"),
	    "a size above RAM is refused", mode, err.text);
	config.balloon = "size=1M";
	r.vm = lull_vm_create(&config, &err);
	tap(r.vm && stats(&r).target_bytes == MiB(1), "a size is the first target", mode, err.text);
	tap(lull_vm_set_balloon(r.vm, 2 * 4096, &err) == 0 && stats(&r).target_bytes == 8192,
	    "it can be set before the start", mode, err.text);
	tap(lull_vm_set_balloon(r.vm, 1, &err) == -EINVAL && lull_vm_set_balloon(r.vm, MiB(8), &err) == -EINVAL &&
	            stats(&r).target_bytes == 8192,
	    "what cannot be leaves it as it was", mode, err.text);
	bool ok = lull_vm_start(r.vm, &err) == 0;
	for (unsigned i = 0; i < 50 && ok; i++) {
		lull_vm_reset(r.vm);
		ok = lull_vm_set_balloon(r.vm, (uint64_t)i * 4096, &err) == 0 && stats(&r).target_bytes == i * 4096;
	}
	tap(ok, "it is set, and stays, while the machine is reset", mode, err.text);
	lull_vm_destroy(r.vm);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	interface();
	for (int shared = 0; shared < 2; shared++) {
		test(argv[1], "user", shared);
		test(argv[1], "kernel", shared);
	}
	printf("1..%d\n", tests);
	return failed != 0;
}
