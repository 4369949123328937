/* SPDX-License-Identifier: Apache-2.0 */
/* budget.c - fills by time passed, by whoever looks first. */
#include "budget.h"

#define UNLIMITED 0u

void budget_init(struct budget *b, unsigned percent)
{
	b->percent = percent;
	atomic_init(&b->tokens, (int64_t)(BUDGET_WINDOW_NS * percent / 100));
	atomic_init(&b->last_ns, 0);
	atomic_init(&b->empty, false);
}

static void fill(struct budget *b, uint64_t now_ns)
{
	uint64_t last = atomic_load(&b->last_ns);
	/* Less than a microsecond's worth would be lost to rounding, and costs an atomic write per halt. */
	if (now_ns - last < 100000 || now_ns < last || !atomic_compare_exchange_strong(&b->last_ns, &last, now_ns))
		return;
	uint64_t passed = last ? now_ns - last : 0;
	if (passed > BUDGET_WINDOW_NS)
		passed = BUDGET_WINDOW_NS;
	int64_t cap = (int64_t)(BUDGET_WINDOW_NS * b->percent / 100), earned = (int64_t)(passed * b->percent / 100);
	int64_t old = atomic_load(&b->tokens), new;
	do
		new = old + earned > cap ? cap : old + earned;
	while (!atomic_compare_exchange_weak(&b->tokens, &old, new));
}

uint64_t budget_left(struct budget *b, uint64_t now_ns)
{
	if (b->percent == UNLIMITED)
		return UINT64_MAX;
	fill(b, now_ns);
	int64_t tokens = atomic_load(&b->tokens), half = (int64_t)(BUDGET_WINDOW_NS * b->percent / 200);
	if (tokens >= half)
		atomic_store(&b->empty, false);
	return atomic_load(&b->empty) || tokens <= 0 ? 0 : (uint64_t)tokens;
}

void budget_spend(struct budget *b, uint64_t ns)
{
	if (b->percent == UNLIMITED)
		return;
	if (atomic_fetch_sub(&b->tokens, (int64_t)ns) <= (int64_t)ns)
		atomic_store(&b->empty, true);
}
