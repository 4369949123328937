// SPDX-License-Identifier: Apache-2.0
/* test_virtio_console.c - the console between a driver and two pipes; the test steps the loop. */
#include "virtio_console.h"

#include "chardev.h"
#include "event_loop.h"
#include "fakes/virtq_driver.h"

#include <fcntl.h>
#include <linux/virtio_console.h>
#include <linux/virtio_ids.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	RX = 0,
	TX = 1,
	SIZE = 16,
	REG_QUEUE_RESET = 0xc0,
	RING_RESET = 40,
	EMERGENCY = VIRTIO_MMIO_CONFIG + 8,
	BIG = 100000,
};

static struct {
	struct driver d;
	struct driver_ring rx, tx;
	struct event_loop loop;
	struct chardev *cd;
	struct virtio_dev *dev;
	int in, out; /* the host's ends */
	uint64_t at; /* a page for what is written and read */
} rig;

static void plug(void)
{
	rig.dev = virtio_console_create(rig.cd, &rig.loop);
	const struct virtio_mmio_config config = {.dev = rig.dev, .mem = &rig.d.mem, .loop = &rig.loop};
	rig.d.t = virtio_mmio_create(&config);
}

static void unplug(void)
{
	virtio_mmio_destroy(rig.d.t);
	rig.dev->ops->destroy(rig.dev);
}

static int set_up_with(const char *spec)
{
	memset(&rig, 0, sizeof(rig));
	rig.in = rig.out = -1;
	driver_open(&rig.d);
	assert_int_equal(event_loop_init(&rig.loop), 0);
	rig.cd = chardev_open_as("console", spec, NULL, NULL);
	assert_non_null(rig.cd);
	plug();
	assert_int_equal(chardev_attach(rig.cd, &rig.loop), 0);
	rig.at = driver_alloc(&rig.d, 2 * BIG, 4096);
	return 0;
}

static int set_up(void **state)
{
	int in[2], out[2];
	char spec[32];

	(void)state;
	assert_int_equal(pipe2(in, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
	snprintf(spec, sizeof(spec), "fd=%d,%d", in[0], out[1]);
	set_up_with(spec);
	close(in[0]); /* the chardev has its own */
	close(out[1]);
	rig.in = in[1];
	rig.out = out[0];
	return 0;
}

static int set_up_null(void **state)
{
	(void)state;
	return set_up_with("null");
}

static int tear_down(void **state)
{
	(void)state;
	unplug();
	chardev_detach(rig.cd, 0);
	chardev_close(rig.cd);
	event_loop_fini(&rig.loop);
	driver_close(&rig.d);
	if (rig.in >= 0)
		close(rig.in);
	if (rig.out >= 0)
		close(rig.out);
	return 0;
}

static bool step(int timeout_ms)
{
	struct epoll_event event;

	if (epoll_wait(rig.loop.epoll_fd, &event, 1, timeout_ms) != 1)
		return false;
	const struct event_source *src = event.data.ptr;
	src->fn(src->ctx, event.events);
	return true;
}

/* Longer than the chardev holds output back. */
static void settle(void)
{
	unsigned steps = 0;

	while (step(20))
		assert_true(++steps < 10000);
}

static void bring_up(void)
{
	driver_ring_open(&rig.d, &rig.rx, SIZE);
	driver_ring_open(&rig.d, &rig.tx, SIZE);
	assert_true(driver_negotiate(&rig.d, 1ull << RING_RESET | 1ull << VIRTIO_CONSOLE_F_EMERG_WRITE));
	driver_ready(&rig.d, RX, &rig.rx);
	driver_ready(&rig.d, TX, &rig.tx);
	driver_set_status(&rig.d, VIRTIO_CONFIG_S_DRIVER_OK);
}

static void say(const char *text)
{
	const struct driver_buf buf = {rig.at, (uint32_t)strlen(text), false};

	memcpy(driver_at(&rig.d, rig.at), text, strlen(text));
	driver_chain(&rig.tx, &buf, 1);
	driver_kick(&rig.d, TX);
}

static void assert_host_reads(const char *text)
{
	char got[256] = "";

	settle();
	ssize_t n = read(rig.out, got, sizeof(got) - 1);
	assert_int_equal(n, strlen(text));
	assert_string_equal(got, text);
}

static uint32_t used(struct driver_ring *r)
{
	uint32_t id = 0, len = 0;

	assert_true(driver_used(r, &id, &len));
	return len;
}

static void type(const char *text)
{
	assert_int_equal(write(rig.in, text, strlen(text)), strlen(text));
	settle();
}

static void offer_input(uint32_t len)
{
	const struct driver_buf buf = {rig.at, len, true};

	driver_chain(&rig.rx, &buf, 1);
	driver_kick(&rig.d, RX);
	settle();
}

static void assert_input(const char *text)
{
	assert_int_equal(used(&rig.rx), strlen(text));
	assert_memory_equal(driver_at(&rig.d, rig.at), text, strlen(text));
}

/* ------------------------------------------------------------------------------------------- tests */

static void it_is_a_console_with_one_port(void **state)
{
	(void)state;
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_DEVICE_ID), VIRTIO_ID_CONSOLE);
	uint64_t offered = driver_offered(&rig.d);
	assert_true(offered >> VIRTIO_CONSOLE_F_EMERG_WRITE & 1);
	assert_false(offered >> VIRTIO_CONSOLE_F_MULTIPORT & 1);
	driver_write(&rig.d, VIRTIO_MMIO_QUEUE_SEL, 2);
	assert_int_equal(driver_read(&rig.d, VIRTIO_MMIO_QUEUE_NUM_MAX), 0);
}

static void output_reaches_the_host(void **state)
{
	(void)state;
	bring_up();
	say("hello, ");
	assert_int_equal(used(&rig.tx), 0); /* taken at once, before the host has read it */
	say("world\n");
	assert_host_reads("hello, world\n");
}

static void output_in_pieces_is_joined(void **state)
{
	const struct driver_buf bufs[] = {{0, 1, false}, {1, 2, false}, {3, 3, false}};

	(void)state;
	bring_up();
	memcpy(driver_at(&rig.d, 0), "abcdef", 6);
	driver_chain(&rig.tx, bufs, 3);
	driver_kick(&rig.d, TX);
	assert_host_reads("abcdef");
}

static void input_reaches_the_driver(void **state)
{
	(void)state;
	bring_up();
	offer_input(64);
	type("one");
	assert_input("one");
	type("two and "); /* there is no buffer now: it waits in the host */
	assert_int_equal(rig.rx.used->idx, rig.rx.seen);
	offer_input(4);
	assert_input("two ");
	offer_input(64);
	assert_input("and ");
}

static void input_from_before_the_driver_waits(void **state)
{
	(void)state;
	type("early");
	bring_up();
	offer_input(64);
	assert_input("early");
}

static void emergency_writes_work_without_a_driver(void **state)
{
	(void)state;
	virtio_mmio_bus_ops.write(rig.d.t, EMERGENCY, 4, 'X');
	virtio_mmio_bus_ops.write(rig.d.t, EMERGENCY, 1, 'Y');
	virtio_mmio_bus_ops.write(rig.d.t, EMERGENCY - 8, 4, 'N'); /* the size is read-only */
	assert_host_reads("XY");
	assert_int_equal(virtio_mmio_bus_ops.read(rig.d.t, EMERGENCY - 8, 4), 0);
}

/* More than the chardev buffers: it waits in the guest and comes out whole. */
static void a_busy_host_loses_nothing(void **state)
{
	static uint8_t got[2 * BIG];
	uint8_t *data = driver_at(&rig.d, rig.at);
	size_t done = 0;

	(void)state;
	bring_up();
	for (size_t i = 0; i < 2 * BIG; i++)
		data[i] = (uint8_t)(i * 7 >> 3);
	for (unsigned i = 0; i < 2; i++) {
		const struct driver_buf buf = {rig.at + i * BIG, BIG, false};
		driver_chain(&rig.tx, &buf, 1);
	}
	driver_kick(&rig.d, TX);
	assert_int_equal(rig.tx.used->idx, 0); /* not taken yet */
	while (done < sizeof(got) && step(1000)) {
		ssize_t n = read(rig.out, got + done, sizeof(got) - done);
		done += n > 0 ? (size_t)n : 0;
	}
	assert_int_equal(done, sizeof(got));
	assert_memory_equal(got, data, sizeof(got));
	settle();
	assert_int_equal(rig.tx.used->idx, 2);
	assert_int_equal(chardev_dropped(rig.cd), 0);
}

static void a_host_that_never_reads_stalls_nobody(void **state)
{
	(void)state;
	bring_up();
	for (unsigned i = 0; i < 8; i++) {
		const struct driver_buf buf = {rig.at, BIG, false};
		driver_chain(&rig.tx, &buf, 1);
		driver_kick(&rig.d, TX);
		settle();
		if (i == 1) /* its patience is not at an end yet */
			assert_true(rig.tx.used->idx == 1 && step(1000));
	}
	assert_int_equal(rig.tx.used->idx, 8);
	assert_true(chardev_dropped(rig.cd) > 0);
	/* When somebody reads after all, there is patience again. */
	while (read(rig.out, driver_at(&rig.d, rig.at), BIG) > 0)
		settle();
	uint64_t before = chardev_dropped(rig.cd);
	say("there you are");
	assert_host_reads("there you are");
	assert_int_equal(chardev_dropped(rig.cd), before);
}

static void the_null_console_takes_everything(void **state)
{
	(void)state;
	bring_up();
	for (unsigned i = 0; i < 8; i++) {
		const struct driver_buf buf = {rig.at, BIG, false};
		driver_chain(&rig.tx, &buf, 1);
		driver_kick(&rig.d, TX);
	}
	settle();
	assert_int_equal(rig.tx.used->idx, 8);
}

static void a_reset_gives_buffers_back_and_starts_anew(void **state)
{
	const struct driver_buf big = {rig.at, BIG, false};

	(void)state;
	bring_up();
	offer_input(64); /* held since somebody asked for room */
	driver_chain(&rig.tx, &big, 1);
	driver_kick(&rig.d, TX); /* half written */
	driver_write(&rig.d, VIRTIO_MMIO_QUEUE_SEL, RX);
	driver_write(&rig.d, REG_QUEUE_RESET, 1);
	driver_write(&rig.d, VIRTIO_MMIO_STATUS, 0);
	settle();
	while (read(rig.out, driver_at(&rig.d, rig.at), BIG) > 0)
		settle();
	type("x");
	bring_up();
	say("again");
	assert_host_reads("again");
	offer_input(8);
	assert_input("x");
}

static void a_new_board_takes_over_the_host_end(void **state)
{
	(void)state;
	bring_up();
	offer_input(64);
	say("first ");
	settle();
	unplug();
	type("kept");
	plug();
	bring_up();
	say("second");
	assert_host_reads("first second");
	offer_input(64);
	assert_input("kept");
}

static void input_that_cannot_be_written_breaks_the_device(void **state)
{
	const struct driver_buf readable = {rig.at, 16, false};

	(void)state;
	bring_up();
	driver_chain(&rig.rx, &readable, 1);
	driver_kick(&rig.d, RX);
	settle();
	assert_true(driver_needs_reset(&rig.d));
	type("x");
	bring_up();
	assert_false(driver_needs_reset(&rig.d));
	offer_input(8);
	assert_input("x");
}

static void chains_that_cannot_be_break_the_device(void **state)
{
	(void)state;
	for (unsigned n = RX; n <= TX; n++) {
		bring_up();
		struct driver_ring *r = n == RX ? &rig.rx : &rig.tx;
		driver_desc(r, 0, DRIVER_RAM, 16, n == RX ? VRING_DESC_F_WRITE : 0, 0);
		driver_offer(r, 0);
		driver_kick(&rig.d, n);
		settle();
		assert_true(driver_needs_reset(&rig.d));
		type("y");
		say("nobody hears");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define WITH_PIPES(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
		WITH_PIPES(it_is_a_console_with_one_port),
		WITH_PIPES(output_reaches_the_host),
		WITH_PIPES(output_in_pieces_is_joined),
		WITH_PIPES(input_reaches_the_driver),
		WITH_PIPES(input_from_before_the_driver_waits),
		WITH_PIPES(emergency_writes_work_without_a_driver),
		WITH_PIPES(a_busy_host_loses_nothing),
		WITH_PIPES(a_host_that_never_reads_stalls_nobody),
		cmocka_unit_test_setup_teardown(the_null_console_takes_everything, set_up_null, tear_down),
		WITH_PIPES(a_reset_gives_buffers_back_and_starts_anew),
		WITH_PIPES(a_new_board_takes_over_the_host_end),
		WITH_PIPES(input_that_cannot_be_written_breaks_the_device),
		WITH_PIPES(chains_that_cannot_be_break_the_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
