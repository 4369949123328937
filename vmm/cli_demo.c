/* SPDX-License-Identifier: Apache-2.0 */
/* cli_demo.c - lull demo: runs the built-in guest without and with polling and shows on one screen how its CPUs waited.
 */
#include "cli.h"
#include "cli_out.h"
#include "cli_stats.h"

#include <string.h>
#include <unistd.h>

enum {
	PATIENCE_S = 20
};

static const char *const policies[] = {"none", "cost"};

/* CLI_OK, or the exit code of the whole demo, whose reason was said. */
static int end_of_guest(struct lull_vm *vm, int64_t timeout_ns)
{
	struct lull_exit end = {.size = sizeof(end)};
	struct lull_error err = {0};
	const char *line;
	int code;

	if (lull_vm_wait(vm, timeout_ns, &end, &err) < 0) {
		cli_say("timeout: the demo still ran after %g s; try lull doctor", (double)timeout_ns / 1e9);
		return CLI_TIMEOUT;
	}
	code = cli_end(&end, &line);
	if (*line)
		cli_say("%s", line);
	/* 0 written to isa-debug-exit. */
	return end.reason == LULL_EXIT_DEBUG_EXIT && code == 1 ? CLI_OK : code;
}

static int run_once(const struct options *opt, const char *policy, bool show, struct cli_stats *stats)
{
	struct lull_config config = opt->config;
	struct lull_error err = {0};
	struct lull_vm *vm;
	size_t bytes;
	int code;

	config.kernel_image = lull_demo_image(&bytes);
	config.kernel_bytes = bytes;
	config.vcpus = 2;
	config.halt_poll = policy;
	config.serial = show ? "fd=-1,1" : "null";
	config.log = cli_log;
	vm = lull_vm_create(&config, &err);
	if (!vm || lull_vm_start(vm, &err) < 0) {
		cli_say("%s", err.text);
		lull_vm_destroy(vm);
		return CLI_CANNOT;
	}
	code = end_of_guest(vm, opt->timeout_ns ? (int64_t)opt->timeout_ns : (int64_t)PATIENCE_S * 1000000000);
	if (cli_stats_take(stats, vm, policy, config.irqchip) < 0 && code == CLI_OK)
		code = CLI_CANNOT;
	lull_vm_destroy(vm);
	return code;
}

int cli_demo(const struct options *opt)
{
	bool kernel = opt->config.irqchip && strcmp(opt->config.irqchip, "kernel") == 0;
	size_t count = opt->config.halt_poll || kernel ? 1 : 2;
	struct cli_stats runs[2];

	printf("lull %s: the built-in guest on 2 CPUs, interrupt controllers by %s\n\n", lull_version(),
	       kernel ? "KVM" : "lull");
	fflush(stdout);
	for (size_t i = 0; i < count; i++) {
		const char *policy = opt->config.halt_poll ? opt->config.halt_poll : policies[i];
		int code = run_once(opt, policy, i == 0, &runs[i]);

		runs[i].label = kernel ? "by KVM" : policy;
		if (code != CLI_OK)
			return cli_finish_stdout(code);
	}
	if (count == 2)
		printf("\nThe same guest with --halt-poll %s and %s:\n", policies[0], policies[1]);
	else
		putchar('\n');
	cli_stats_print(stdout, runs, count);
	return cli_finish_stdout(CLI_OK);
}
