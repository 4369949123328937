/* SPDX-License-Identifier: Apache-2.0 */
/* records.c - numbered records with a checksum, in the three ways in which programs make data last, and the search for
 * them after a crash.
 *
 *	records write DIRECTORY FIRST [LAST]    or for ever; says "ACK N FIRST" when record N is safe
 *	records check DIRECTORY FILE            is each record there that FILE has a line "ACK N FIRST" for?
 *
 * Record N is, by its remainder: appended to log-FIRST and fdatasync()ed; a new file, fsync()ed, renamed over files/K,
 *the directory fsync()ed; written by O_DIRECT to a place in `slots`, fdatasync()ed. Files and slots are used again:
 *what is found there may be newer than what was acknowledged, never older.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x64726f6365726c6cull /* "llrecord" */
enum {
	SLOT = 4096,
	SLOTS = 64,
	MAX = 16384,
	PATH = 512,
};

struct record {
	uint64_t magic, n, bytes, sum;
	uint64_t payload[];
};

static union {
	struct record r;
	uint64_t words[MAX / 8];
	char bytes[MAX];
} buf __attribute__((aligned(4096)));

static void die(const char *what, const char *name)
{
	printf("records: %s %s: %s\n", what, name, strerror(errno));
	exit(2);
}

static uint64_t mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0x9e3779b97f4a7c15ull;
	return x ^ x >> 29;
}

static uint64_t sum_of(const struct record *r)
{
	uint64_t sum = mix(r->n) ^ r->bytes;

	for (uint64_t i = 0; i < r->bytes / 8 - 4; i++)
		sum = mix(sum + r->payload[i]);
	return sum;
}

static void make_record(uint64_t n, uint64_t bytes)
{
	buf.r = (struct record){MAGIC, n, bytes, 0};
	for (uint64_t i = 0; i < bytes / 8 - 4; i++)
		buf.r.payload[i] = mix(n << 20 | i);
	buf.r.sum = sum_of(&buf.r);
}

/* Is there one at this place of the buffer that ends within `left` bytes? */
static int is_record(const struct record *r, uint64_t left)
{
	return left >= sizeof(*r) && r->magic == MAGIC && r->bytes >= sizeof(*r) && r->bytes <= left &&
	       r->bytes % 8 == 0 && sum_of(r) == r->sum;
}

static void put(int fd, const char *name, uint64_t bytes)
{
	for (uint64_t done = 0; done < bytes;) {
		ssize_t n = write(fd, buf.bytes + done, bytes - done);

		if (n <= 0)
			die("write", name);
		done += (uint64_t)n;
	}
}

static int open_or_die(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		die("open", path);
	return fd;
}

static void sync_or_die(int fd, const char *path)
{
	if (fsync(fd))
		die("fsync", path);
}

static uint64_t length_of(uint64_t n)
{
	return sizeof(struct record) + mix(n) % ((MAX - sizeof(struct record)) / 8) * 8;
}

static void replace_file(int dir, const char *files, uint64_t n)
{
	char path[PATH], temporary[PATH];
	int fd;

	snprintf(path, sizeof(path), "%s/%u", files, (unsigned)(n / 3 % SLOTS));
	snprintf(temporary, sizeof(temporary), "%s/new", files);
	make_record(n, length_of(n));
	fd = open_or_die(temporary, O_WRONLY | O_CREAT | O_TRUNC);
	put(fd, temporary, buf.r.bytes);
	sync_or_die(fd, temporary);
	close(fd);
	if (rename(temporary, path))
		die("rename", path);
	sync_or_die(dir, files);
}

static void write_all(const char *at, uint64_t first, uint64_t end)
{
	char files[PATH - 32], path[PATH];
	int log, dir, slots;

	snprintf(files, sizeof(files), "%s/files", at);
	mkdir(files, 0755);
	dir = open_or_die(files, O_RDONLY | O_DIRECTORY);
	snprintf(path, sizeof(path), "%s/slots", at);
	slots = open_or_die(path, O_RDWR | O_CREAT | O_DIRECT);
	if (posix_fallocate(slots, 0, SLOT * SLOTS))
		die("fallocate", path);
	sync_or_die(slots, path);
	snprintf(path, sizeof(path), "%s/log-%llu", at, (unsigned long long)first);
	log = open_or_die(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
	sync();
	for (uint64_t n = first; n <= end; n++) {
		switch (n % 3) {
		case 0:
			make_record(n, length_of(n));
			put(log, path, buf.r.bytes);
			if (fdatasync(log))
				die("fdatasync", path);
			break;
		case 1:
			replace_file(dir, files, n);
			break;
		default:
			make_record(n, SLOT);
			if (pwrite(slots, &buf, SLOT, (off_t)(n / 3 % SLOTS * SLOT)) != SLOT || fdatasync(slots))
				die("write", "slots");
		}
		printf("ACK %llu %llu\n", (unsigned long long)n, (unsigned long long)first);
		fflush(stdout);
	}
}

/* Number of the record at this place of a file; 0: none. */
static uint64_t number_at(const char *path, off_t at, uint64_t *bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return 0;
	n = pread(fd, &buf, MAX, at);
	close(fd);
	if (n < 0 || !is_record(&buf.r, (uint64_t)n))
		return 0;
	*bytes = buf.r.bytes;
	return buf.r.n;
}

/* Appended records follow each other by threes; the log is read once, forward. */
static int in_log(const char *at, uint64_t n, uint64_t first)
{
	static uint64_t reading, last;
	static off_t offset;
	char path[PATH];
	uint64_t bytes = 0, found;

	if (reading != first) {
		reading = first;
		last = 0;
		offset = 0;
	}
	snprintf(path, sizeof(path), "%s/log-%llu", at, (unsigned long long)first);
	while (last < n) {
		found = number_at(path, offset, &bytes);
		if (found == 0)
			return 0;
		last = found;
		offset += (off_t)bytes;
	}
	return last == n;
}

static int is_there(const char *at, uint64_t n, uint64_t first)
{
	char path[PATH];
	uint64_t found, bytes, place = n / 3 % SLOTS;

	if (n % 3 == 0)
		return in_log(at, n, first);
	if (n % 3 == 1) {
		snprintf(path, sizeof(path), "%s/files/%u", at, (unsigned)place);
		found = number_at(path, 0, &bytes);
	} else {
		snprintf(path, sizeof(path), "%s/slots", at);
		found = number_at(path, (off_t)(place * SLOT), &bytes);
	}
	return found >= n && found % 3 == n % 3 && found / 3 % SLOTS == place;
}

static int check_all(const char *at, const char *name)
{
	FILE *acks = fopen(name, "r");
	unsigned long long n, first;
	unsigned lost = 0, checked = 0;
	char line[128];

	if (!acks)
		die("open", name);
	while (fgets(line, sizeof(line), acks)) {
		if (!strchr(line, '\n') || sscanf(line, "ACK %llu %llu", &n, &first) != 2)
			continue;
		checked++;
		if (!is_there(at, n, first) && ++lost <= 5)
			printf("records: acknowledged record %llu of run %llu is lost\n", n, first);
	}
	fclose(acks);
	printf("records: %u acknowledged, %u lost\n", checked, lost);
	return lost > 0 || checked == 0;
}

int main(int argc, char **argv)
{
	if ((argc == 4 || argc == 5) && strcmp(argv[1], "write") == 0) {
		write_all(argv[2], strtoull(argv[3], NULL, 0), argc == 5 ? strtoull(argv[4], NULL, 0) : UINT64_MAX);
		return 0;
	}
	if (argc == 4 && strcmp(argv[1], "check") == 0)
		return check_all(argv[2], argv[3]);
	fprintf(stderr, "usage: records write DIRECTORY FIRST [LAST] | records check DIRECTORY FILE\n");
	return 2;
}
