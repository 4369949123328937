/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - halts on record: a file of bounded size to which each vCPU appends, and its reader.
 *
 * Format, version 1, little endian, no padding:
 *
 *     header    struct trace_header, 128 bytes
 *     rings     header.rings times header.records records of 64 bytes; ring n belongs to vCPU n
 *
 * A ring is written over from its start when it is full: record number seq (1, 2, ...) is in slot (seq - 1) % records.
 * There is no write pointer to keep in step. A record counts if its seq fits its slot and its check fits its contents,
 * so a file left by a crash in the middle of a record, or of a page, is merely short of that record. Empty slots are
 * zeros. The newest seq of a ring tells where the oldest record is.
 *
 * A writer maps the file and stores one cache line per halt: no system call, no lock, no allocation.
 */
#ifndef LULL_TRACE_H
#define LULL_TRACE_H

#include "policy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_MAGIC       "lulltrc" /* with its 0: 8 bytes */
#define TRACE_VERSION     1
#define TRACE_RINGS_MAX   1024
#define TRACE_RECORDS_MAX (1u << 24)   /* of a ring: 1 GiB */
#define TRACE_TIME_MAX    (1ull << 62) /* of a record: 146 years */

struct lull_error;

struct trace_header {
	char magic[8];
	uint32_t version, header_bytes, record_bytes;
	uint32_t rings;
	uint64_t records;                    /* of each ring */
	uint64_t wake_ns, switch_ns, arm_ns; /* what waiting costs on the host (struct policy_host); 0: not known */
	uint64_t reserved;
	char text[64]; /* where it comes from; ends with a 0 */
};

enum trace_flag {
	TRACE_IO = 1 << 0,       /* a device had a request in flight */
	TRACE_MAY_POLL = 1 << 1, /* polling was allowed */
	TRACE_SLEPT = 1 << 2,    /* the thread slept */
	TRACE_GAP = 1 << 3,      /* the host took the CPU away while polling */
	TRACE_INVALID = 1 << 4,  /* woken for nothing */
	TRACE_FLAGS = (1 << 5) - 1,
};

/* Times in ns, at most TRACE_TIME_MAX; those of 32 bits are UINT32_MAX when they are that or more. */
struct trace_record {
	uint64_t seq;
	uint64_t time_ns;    /* when the halt started, since the trace did */
	uint64_t event_ns;   /* d: from there to the event */
	uint64_t timer_ns;   /* from there to the guest's timer, or POLICY_NEVER */
	uint64_t sleep_ns;   /* plan: struct policy_plan */
	uint32_t poll_ns;    /* plan */
	uint32_t spin_ns;    /* plan: how long to spin after sleep_ns */
	uint32_t polled_ns;  /* outcome: time polled and spun */
	uint32_t wake_ns;    /* outcome: how late the thread ran after its last sleep; 0 without TRACE_SLEPT */
	uint32_t latency_ns; /* outcome: from the event until it was noticed */
	uint8_t source;      /* enum policy_source */
	uint8_t flags;       /* enum trace_flag */
	uint16_t check;      /* trace_check() */
};

_Static_assert(sizeof(struct trace_header) == 128 && sizeof(struct trace_record) == 64, "on disk");

/* -------------------------------------------------------------------------------- writing */

/* One writer each: the vCPU's thread. */
struct trace_ring {
	struct trace_record *slots; /* NULL: nothing is recorded */
	uint64_t records, seq, slot;
};

struct trace_file {
	void *map;
	size_t bytes;
	uint64_t start_ns;
	uint32_t rings;
	uint64_t records;
};

/* Makes the file; replaces one that is a trace, or empty, and no other. records: of each ring. start_ns: the time, on
 * the clock of policy_hint.now_ns, from which records count. */
int trace_create(struct trace_file *file, const char *path, uint32_t rings, uint64_t records, uint64_t start_ns,
                 const struct policy_host *host, const char *text, struct lull_error *err);
/* What the host turned out to cost. Any time before trace_close(). */
void trace_host(const struct trace_file *file, const struct policy_host *host);
void trace_close(struct trace_file *file); /* after the last trace_put(); zeroed is fine */

struct trace_ring trace_ring(const struct trace_file *file, uint32_t index);

/* Appends *record, filling in seq and check. */
void trace_append(struct trace_ring *ring, const struct trace_record *record);

/* The same for a halt as the policy saw it. */
void trace_halt(struct trace_ring *ring, const struct trace_file *file, const struct policy_hint *hint,
                const struct policy_plan *plan, const struct policy_sample *sample);

/* -------------------------------------------------------------------------------- reading */

/* A trace in memory, which may hold anything. */
struct trace_view {
	struct trace_header header;
	const uint8_t *slots;
	uint64_t slot_count; /* whole ones that are there, of all rings */
};

struct trace_cursor {
	const struct trace_view *view;
	uint64_t first_slot, seq, end; /* end: the seq after the newest */
	uint64_t lost;                 /* records passed over: missing, torn or senseless */
};

/* Checks the header; data stays in use. -EINVAL with a line that starts with name. */
int trace_open(struct trace_view *view, const void *data, size_t bytes, const char *name, struct lull_error *err);

/* Oldest first. */
void trace_rewind(struct trace_cursor *cursor, const struct trace_view *view, uint32_t ring);
bool trace_next(struct trace_cursor *cursor, struct trace_record *record);

uint16_t trace_check(const struct trace_record *record);

#endif
