/* SPDX-License-Identifier: Apache-2.0 */
/* The input is a halt trace. The header and the checks of records are mostly mended, so that the fuzzer need not guess
 * them; what is read is then replayed. */
#include "replay.h"

#include "lull.h"
#include "util.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t copy[20000];

static void mend(uint8_t *bytes, size_t size)
{
	struct trace_header h;
	struct trace_record r;

	memcpy(&h, bytes, sizeof(h));
	memcpy(h.magic, TRACE_MAGIC, sizeof(h.magic));
	h.version = TRACE_VERSION;
	h.header_bytes = sizeof(h);
	h.record_bytes = sizeof(r);
	h.rings = h.rings % 4 + 1;
	h.records = h.records % 300 + 1;
	memcpy(bytes, &h, sizeof(h));
	for (size_t at = sizeof(h); at + sizeof(r) <= size; at += sizeof(r)) {
		memcpy(&r, bytes + at, sizeof(r));
		r.check = trace_check(&r);
		memcpy(bytes + at, &r, sizeof(r));
	}
}

static void replay(const struct trace_view *view)
{
	static const char *const names[] = {"kvm", "haltpoll", "cost"};
	const struct sim_host host = {10000, 3000, 1000, 100};

	for (uint32_t ring = 0; ring < view->header.rings && ring < 8; ring++) {
		struct sim_trace trace;
		uint64_t lost = 0;
		invariant(replay_load(view, ring, &trace, &lost, NULL) == 0);
		invariant(trace.count <= view->slot_count);
		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			struct policy_spec spec;
			struct sim_total total;
			invariant(policy_parse(&spec, names[i], NULL, NULL) == 0);
			sim_run(&host, &trace, &spec, 2, NULL, NULL, &total);
			invariant(total.cpu_ns >= 0 && total.latency_ns >= 0);
		}
		free(trace.halts);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace_view view;

	if (size < 1 || size > sizeof(copy))
		return -1;
	memcpy(copy, data + 1, size - 1);
	if (data[0] & 7 && size > sizeof(struct trace_header))
		mend(copy, size - 1);
	if (trace_open(&view, copy, size - 1, "x", NULL) == 0)
		replay(&view);
	return 0;
}
