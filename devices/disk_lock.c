// SPDX-License-Identifier: Apache-2.0
/* disk_lock.c - F_OFD_SETLK, and finding out who was faster: the kernel does not say whose such a lock is, but each
 * process shows the locks of its descriptors in /proc/PID/fdinfo. */
#include "disk_lock.h"

#include "disk_config.h"
#include "error.h"
#include "log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum {
	WAIT_NS = 1000000000, /* for a lock that belongs to nobody */
	WAITS = 50,
};

/* "lock:\t1: OFDLCK ADVISORY WRITE -1 08:02:1234 0 EOF", numbers of device in hexadecimal. */
static bool has_lock(const char *path, const char *which)
{
	char line[256];
	bool found = false;
	FILE *f = fopen(path, "re");

	while (f && !found && fgets(line, sizeof(line), f))
		found = strncmp(line, "lock:", 5) == 0 && strstr(line, "OFDLCK") && strstr(line, which);
	if (f)
		fclose(f);
	return found;
}

static bool process_has_lock(const char *pid, const char *which)
{
	char path[64];
	bool found = false;
	struct dirent *entry;

	snprintf(path, sizeof(path), "/proc/%.16s/fdinfo", pid);
	DIR *dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		char file[128];
		if (*entry->d_name < '0' || *entry->d_name > '9')
			continue;
		snprintf(file, sizeof(file), "/proc/%.16s/fdinfo/%.16s", pid, entry->d_name);
		found = has_lock(file, which);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* "lull (pid 123) has it"; false: no process that we may look at has. */
static bool name_holder(int fd, char *text, size_t size)
{
	struct stat st;
	char which[64], path[64], comm[32] = "";
	struct dirent *entry;
	bool found = false;

	snprintf(text, size, "another process has it");
	DIR *dir = fstat(fd, &st) == 0 ? opendir("/proc") : NULL;
	if (!dir)
		return false;
	snprintf(which, sizeof(which), " %02x:%02x:%llu ", major(st.st_dev), minor(st.st_dev),
	         (unsigned long long)st.st_ino);
	while (!found && (entry = readdir(dir))) {
		if (*entry->d_name < '0' || *entry->d_name > '9' || !process_has_lock(entry->d_name, which))
			continue;
		found = true;
		snprintf(path, sizeof(path), "/proc/%.16s/comm", entry->d_name);
		FILE *f = fopen(path, "re");
		if (f && fgets(comm, sizeof(comm), f))
			comm[strcspn(comm, "\n")] = '\0';
		if (f)
			fclose(f);
		snprintf(text, size, "%s (pid %.16s) has it", *comm ? comm : "a process", entry->d_name);
	}
	closedir(dir);
	return found;
}

int disk_lock(int fd, const struct disk_config *config, const struct log *log, struct lull_error *err)
{
	const struct flock wanted = {.l_type = config->read_only ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET};
	const struct timespec pause = {.tv_nsec = WAIT_NS / WAITS};
	struct flock lock;
	char holder[96];
	bool known = false;

	for (unsigned i = 0; i < WAITS && !known; i++) {
		lock = wanted;
		if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
			return 0;
		if (errno != EAGAIN && errno != EACCES) {
			log_warn(log, "disk %s: it cannot be locked against other VMs (%s)", config->path,
			         strerror(errno));
			return 0;
		}
		/* A lock of the older kind says whose it is. */
		known = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid > 0;
		if (known)
			snprintf(holder, sizeof(holder), "process %d has it", (int)lock.l_pid);
		else
			known = name_holder(fd, holder, sizeof(holder));
		/* Nobody's: that of a process that was killed with requests in flight, which the kernel ends just now.
		 */
		if (!known)
			nanosleep(&pause, NULL);
	}
	return error_set(err, -EBUSY,
	                 "disk %s: it is in use, %s locked; only disks that are all opened with ,ro can be shared",
	                 config->path, holder);
}
