/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - writes and reads the file of trace.h. What it reads may be damaged or hostile. */
#include "trace.h"

#include "error.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BATCH 4096u

uint16_t trace_check(const struct trace_record *record)
{
	uint64_t words[8], sum = 0x6c756c6c;

	memcpy(words, record, sizeof(words));
	words[7] &= 0x0000ffffffffffffu; /* the check itself */
	for (int i = 0; i < 8; i++)
		sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15u;
	return (uint16_t)(sum >> 48);
}

/* -------------------------------------------------------------------------------- writing */

/* A file that would be written over is one of ours, or nothing. */
static int may_replace(const char *path, struct lull_error *err)
{
	char magic[8] = "";
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = 0;

	if (fd < 0)
		return errno == ENOENT ? 0 : error_sys(err, -errno, "halt trace %s: cannot look at it", path);
	bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	if (regular)
		n = read(fd, magic, sizeof(magic));
	close(fd);
	if (!regular || (n != 0 && (n != sizeof(magic) || memcmp(magic, TRACE_MAGIC, sizeof(magic)) != 0)))
		return error_set(err, -EEXIST, "halt trace %s: exists and is not a trace; name another file", path);
	if (unlink(path) < 0) /* not truncated: another VM may still have it mapped */
		return error_sys(err, -errno, "halt trace %s: cannot replace it", path);
	return 0;
}

/* Space for all of it, so that a full disk is an error now and not a signal later. */
static int reserve(int fd, uint64_t bytes)
{
	static const char zeros[BATCH];
	int ret = posix_fallocate(fd, 0, (off_t)bytes);

	if (ret != EOPNOTSUPP && ret != EINVAL)
		return -ret;
	for (uint64_t done = 0; done < bytes;) {
		ssize_t n = pwrite(fd, zeros, policy_min(BATCH, bytes - done), (off_t)done);
		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (uint64_t)n : 0;
	}
	return 0;
}

static void put_host(struct trace_header *h, const struct policy_host *host)
{
	h->wake_ns = host->wake_ns;
	h->switch_ns = host->switch_ns;
	h->arm_ns = host->arm_ns;
}

static void fill_header(struct trace_header *h, uint32_t rings, uint64_t records, const struct policy_host *host,
                        const char *text)
{
	*h = (struct trace_header){
		.magic = TRACE_MAGIC,
		.version = TRACE_VERSION,
		.header_bytes = sizeof(struct trace_header),
		.record_bytes = sizeof(struct trace_record),
		.rings = rings,
		.records = records,
	};
	if (host)
		put_host(h, host);
	snprintf(h->text, sizeof(h->text), "%s", text);
}

int trace_create(struct trace_file *file, const char *path, uint32_t rings, uint64_t records, uint64_t start_ns,
                 const struct policy_host *host, const char *text, struct lull_error *err)
{
	struct trace_header header;
	int fd, ret;

	*file = (struct trace_file){.start_ns = start_ns, .rings = rings, .records = records};
	if (!rings || rings > TRACE_RINGS_MAX || !records || records > TRACE_RECORDS_MAX)
		return error_set(err, -EINVAL, "halt trace %s: %llu records of %u vCPUs; at most %u of %u", path,
		                 (unsigned long long)records, rings, TRACE_RECORDS_MAX, TRACE_RINGS_MAX);
	file->bytes = sizeof(header) + rings * records * sizeof(struct trace_record);
	ret = may_replace(path, err);
	if (ret)
		return ret;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return error_sys(err, -errno, "halt trace %s: cannot create it", path);
	ret = reserve(fd, file->bytes);
	if (ret) {
		error_sys(err, ret, "halt trace %s: no room for %zu bytes", path, file->bytes);
		goto undo_file;
	}
	file->map = mmap(NULL, file->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (file->map == MAP_FAILED) {
		file->map = NULL;
		ret = error_sys(err, -errno, "halt trace %s: cannot map it", path);
		goto undo_file;
	}
	close(fd);
	fill_header(&header, rings, records, host, text);
	memcpy(file->map, &header, sizeof(header));
	return 0;
undo_file:
	close(fd);
	unlink(path);
	return ret;
}

void trace_host(const struct trace_file *file, const struct policy_host *host)
{
	if (file->map)
		put_host(file->map, host);
}

void trace_close(struct trace_file *file)
{
	if (file->map)
		munmap(file->map, file->bytes);
	*file = (struct trace_file){0};
}

struct trace_ring trace_ring(const struct trace_file *file, uint32_t index)
{
	struct trace_ring ring = {.records = file->records};

	if (file->map && index < file->rings)
		ring.slots = (struct trace_record *)(void *)((uint8_t *)file->map + sizeof(struct trace_header)) +
		             index * file->records;
	return ring;
}

void trace_append(struct trace_ring *ring, const struct trace_record *record)
{
	struct trace_record r = *record;

	if (!ring->slots)
		return;
	r.seq = ++ring->seq;
	r.check = trace_check(&r);
	ring->slots[ring->slot] = r;
	if (++ring->slot == ring->records)
		ring->slot = 0;
}

static uint32_t saturated(uint64_t ns)
{
	return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

void trace_halt(struct trace_ring *ring, const struct trace_file *file, const struct policy_hint *hint,
                const struct policy_plan *plan, const struct policy_sample *sample)
{
	uint64_t wake = sample->wake_ns[1] != POLICY_NEVER ? sample->wake_ns[1] : sample->wake_ns[0];
	bool spins = plan->sleep_ns != POLICY_NEVER && plan->spin_ns > plan->sleep_ns;
	struct trace_record r = {
		.time_ns = hint->now_ns - file->start_ns,
		.event_ns = policy_min(sample->event_ns, TRACE_TIME_MAX),
		.timer_ns = hint->timer_ns == POLICY_NEVER ? POLICY_NEVER : policy_min(hint->timer_ns, TRACE_TIME_MAX),
		.sleep_ns = plan->sleep_ns,
		.poll_ns = saturated(plan->poll_ns),
		.spin_ns = spins ? saturated(plan->spin_ns - plan->sleep_ns) : 0,
		.polled_ns = saturated(sample->poll_ns + sample->spin_ns),
		.wake_ns = wake != POLICY_NEVER ? saturated(wake) : 0,
		.latency_ns = saturated(sample->latency_ns),
		.source = (uint8_t)sample->source,
	};

	r.flags = (uint8_t)((hint->io ? TRACE_IO : 0) | (hint->may_poll ? TRACE_MAY_POLL : 0) |
	                    (wake != POLICY_NEVER ? TRACE_SLEPT : 0) | (sample->gap_ns ? TRACE_GAP : 0) |
	                    (sample->invalid ? TRACE_INVALID : 0));
	trace_append(ring, &r);
}

/* -------------------------------------------------------------------------------- reading */

int trace_open(struct trace_view *view, const void *data, size_t bytes, const char *name, struct lull_error *err)
{
	struct trace_header *h = &view->header;

	*view = (struct trace_view){0};
	if (bytes < sizeof(*h) || memcmp(data, TRACE_MAGIC, sizeof(h->magic)) != 0)
		return error_set(err, -EINVAL, "%s: not a halt trace; make one with --halt-trace or trace gen", name);
	memcpy(h, data, sizeof(*h));
	h->text[sizeof(h->text) - 1] = 0;
	if (h->version != TRACE_VERSION || h->header_bytes != sizeof(*h) ||
	    h->record_bytes != sizeof(struct trace_record))
		return error_set(err, -EINVAL, "%s: a halt trace of version %u; this lull reads version %u", name,
		                 h->version, TRACE_VERSION);
	if (!h->rings || h->rings > TRACE_RINGS_MAX || !h->records || h->records > TRACE_RECORDS_MAX)
		return error_set(err, -EINVAL, "%s: damaged header: %u rings of %llu records", name, h->rings,
		                 (unsigned long long)h->records);
	view->slots = (const uint8_t *)data + sizeof(*h);
	view->slot_count = (bytes - sizeof(*h)) / sizeof(struct trace_record);
	if (bytes - sizeof(*h) > h->rings * h->records * sizeof(struct trace_record))
		return error_set(err, -EINVAL, "%s: longer than its header says; it is no halt trace, or damaged",
		                 name);
	return 0;
}

/* False: empty, torn, of another slot, or beyond the end of the data. */
static bool read_slot(const struct trace_view *view, uint64_t first_slot, uint64_t slot, struct trace_record *r)
{
	if (first_slot + slot >= view->slot_count)
		return false;
	memcpy(r, view->slots + (first_slot + slot) * sizeof(*r), sizeof(*r));
	return r->seq && (r->seq - 1) % view->header.records == slot && r->check == trace_check(r);
}

void trace_rewind(struct trace_cursor *cursor, const struct trace_view *view, uint32_t ring)
{
	uint64_t records = view->header.records, newest = 0, there = 0;
	struct trace_record r;

	*cursor = (struct trace_cursor){.view = view, .first_slot = ring * records};
	if (ring < view->header.rings && cursor->first_slot < view->slot_count)
		there = policy_min(records, view->slot_count - cursor->first_slot);
	for (uint64_t slot = 0; slot < there; slot++)
		if (read_slot(view, cursor->first_slot, slot, &r) && r.seq > newest && r.seq < UINT64_MAX)
			newest = r.seq;
	cursor->seq = newest > records ? newest - records + 1 : 1;
	cursor->end = newest + 1;
}

static bool makes_sense(const struct trace_record *r)
{
	return r->source <= POLICY_REQUEST && r->flags <= TRACE_FLAGS && r->time_ns <= TRACE_TIME_MAX &&
	       r->event_ns <= TRACE_TIME_MAX && (r->timer_ns <= TRACE_TIME_MAX || r->timer_ns == POLICY_NEVER);
}

bool trace_next(struct trace_cursor *cursor, struct trace_record *record)
{
	while (cursor->seq < cursor->end) {
		uint64_t seq = cursor->seq++;
		uint64_t slot = (seq - 1) % cursor->view->header.records;
		if (read_slot(cursor->view, cursor->first_slot, slot, record) && record->seq == seq &&
		    makes_sense(record))
			return true;
		cursor->lost++;
	}
	return false;
}
