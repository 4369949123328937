/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle_loops.c - two kinds of talk between CPUs under every way of idling (idle=, see lib/idle.h): work=pingpong hands
 * a token from CPU to CPU, as threads that wake each other do; work=rr is a client on CPU 0 whose request a server on
 * CPU 1 works on for serve= us before it answers, with think= us between an answer and the next request. rounds= of
 * either.
 *
 * Prints "latency NS": per hop, or per request without the server's work. want=polls: no CPU may have halted.
 */
#include "idle.h"

static uint32_t cpus_used, rounds;
static uint64_t serve_us, think_us;
static volatile uint32_t ready, token, asked, answered;
static volatile bool is_over;

static void online(void)
{
	idle_start();
	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
}

static uint64_t gather(uint64_t cpus)
{
	while (ready < cpus)
		__builtin_ia32_pause();
	return 0;
}

/* The token is its place, counted through all rounds. */
static void hand_on(uint32_t id)
{
	uint32_t next = id + 1 == cpus_used ? 0 : id + 1;

	check_eq(token % cpus_used, id);
	token = token + 1;
	idle_wake(next);
}

static void player(void *arg)
{
	uint32_t id = this_cpu()->id, i;

	(void)arg;
	online();
	for (i = 0; i < rounds; i++) {
		idle_wait();
		hand_on(id);
	}
	idle_stop();
}

static uint64_t pingpong(void)
{
	uint64_t start = rdtsc();
	uint32_t i;

	for (i = 0; i < rounds; i++) {
		hand_on(0);
		idle_wait();
	}
	check_eq(token, rounds * cpus_used);
	return tsc_to_ns(rdtsc() - start) / token;
}

static void server(void *arg)
{
	(void)arg;
	online();
	for (;;) {
		idle_wait();
		if (is_over)
			break;
		check_eq(asked, answered + 1);
		if (serve_us != 0)
			delay_us((unsigned)serve_us);
		answered = asked;
		idle_wake(0);
	}
	idle_stop();
}

static uint64_t request_response(void)
{
	uint64_t start, spent = 0;
	uint32_t i;

	for (i = 0; i < rounds; i++) {
		start = rdtsc();
		asked = i + 1;
		idle_wake(1);
		idle_wait();
		check_eq(answered, i + 1);
		spent += rdtsc() - start;
		if (think_us != 0)
			delay_us((unsigned)think_us);
	}
	is_over = true;
	idle_wake(1);
	spent = tsc_to_ns(spent) / rounds;
	return spent > serve_us * 1000 ? spent - serve_us * 1000 : 0;
}

int main(void)
{
	bool is_rr = param_is("work", "rr");
	uint64_t latency;
	uint32_t i;

	cpus_used = is_rr ? 2 : (uint32_t)param_u64("cpus", 2);
	rounds = (uint32_t)param_u64("rounds", 200);
	serve_us = param_u64("serve", 20);
	think_us = param_u64("think", 0);
	check(cpus_used <= IDLE_CPUS);
	apic_setup();
	idle_setup();
	for (i = 1; i < cpus_used; i++)
		cpu_start(i, is_rr ? server : player, NULL);
	online();
	ring3(gather, cpus_used);
	latency = is_rr ? request_response() : pingpong();
	idle_stop();
	for (i = 1; i < cpus_used; i++)
		cpu_wait(i);
	for (i = 0; i < cpus_used; i++) {
		struct idle_stats s = idle_stats(i);

		print("cpu %u: %lu polls, %lu hits, %lu halts, %lu mwaits, %lu interrupts, window %u\n", i, s.polls,
		      s.hits, s.halts, s.mwaits, s.interrupts, s.window_ns);
		if (param_is("want", "polls"))
			check_eq(s.halts + s.interrupts, 0);
	}
	print("latency %lu\n", latency);
	return 0;
}
