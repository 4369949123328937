/* SPDX-License-Identifier: Apache-2.0 */
/* kexec.c - kexec KERNEL INITRD COMMAND-LINE: runs that kernel in place of this one, at once. For the test guest, whose
 * kernel has kexec_file_load(2) and whose busybox has no kexec. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* <linux/reboot.h> */
#define MAGIC1 0xfee1deadu
#define MAGIC2 672274793u
#define KEXEC  0x45584543u

int main(int argc, char **argv)
{
	int kernel = argc == 4 ? open(argv[1], O_RDONLY) : -1, initrd = argc == 4 ? open(argv[2], O_RDONLY) : -1;

	if (kernel < 0 || initrd < 0) {
		fprintf(stderr, "usage: kexec KERNEL INITRD COMMAND-LINE\n");
		return 2;
	}
	if (syscall(SYS_kexec_file_load, kernel, initrd, strlen(argv[3]) + 1, argv[3], 0) < 0) {
		perror("kexec_file_load");
		return 1;
	}
	sync();
	syscall(SYS_reboot, MAGIC1, MAGIC2, KEXEC, NULL);
	perror("reboot");
	return 1;
}
