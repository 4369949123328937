// SPDX-License-Identifier: Apache-2.0
/* test_net_tap.c - taps that are made, found, handed over and taken away, and frames through them. */
#include "tap_rig.h"

/* ------------------------------------------------------------------------------------ how it lives */

static void a_new_tap_is_up_and_goes_with_us(void **state)
{
	(void)state;
	NEEDS_TAP();
	open_tap("tap=vm0,mtu=4000", 0);
	assert_string_equal(rig.host->interface, "vm0");
	assert_string_equal(rig.host->name, "tap vm0");
	assert_true(interface_flags("vm0") & IFF_UP);
	assert_int_equal(rig.host->mtu, 4000);
	close_tap();
	assert_int_equal(if_nametoindex("vm0"), 0);
}

static void a_tap_without_a_name_gets_one(void **state)
{
	(void)state;
	NEEDS_TAP();
	open_tap("tap", 0);
	assert_memory_equal(rig.host->interface, "lull", 4);
	struct net_host *second = net_host_open("tap", NULL, NULL);
	assert_non_null(second);
	assert_string_not_equal(second->interface, rig.host->interface);
	net_host_close(second);
	close_tap();
}

static int persistent_tap(const char *name, int flags)
{
	struct ifreq ifr = {.ifr_flags = (short)(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | flags)};
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	assert_int_equal(ioctl(fd, TUNSETIFF, &ifr), 0);
	assert_int_equal(ioctl(fd, TUNSETPERSIST, 1), 0);
	return fd;
}

static void a_persistent_tap_stays_as_it_is(void **state)
{
	(void)state;
	NEEDS_TAP();
	close(persistent_tap("keep0", 0));
	struct net_host *h = net_host_open("tap=keep0", NULL, NULL);
	assert_non_null(h);
	assert_false(interface_flags("keep0") & IFF_UP);
	struct lull_error err;
	assert_null(net_host_open("tap=keep0", NULL, &err));
	assert_non_null(strstr(err.text, "net tap keep0: another process uses it"));
	net_host_close(h);
	assert_true(if_nametoindex("keep0") > 0);
	delete_interface("keep0");
}

static void a_tap_for_several_queues_works_with_one(void **state)
{
	(void)state;
	NEEDS_TAP();
	close(persistent_tap("many0", IFF_MULTI_QUEUE));
	set_up_or_down("many0", true);
	open_tap("tap=many0", 0);
	guest_sends_frame(60, 1);
	assert_host_receives(60, 1);
	close_tap();
	delete_interface("many0");
}

static void a_descriptor_of_a_tap_is_one(void **state)
{
	char spec[32];

	(void)state;
	NEEDS_TAP();
	int fd = persistent_tap("given0", 0);
	set_up_or_down("given0", true);
	snprintf(spec, sizeof(spec), "fd=%d", fd);
	open_tap(spec, 0);
	close(fd);
	assert_string_equal(rig.host->interface, "given0");
	guest_sends_frame(60, 1);
	assert_host_receives(60, 1);
	close_tap();
	delete_interface("given0");
}

static void a_tap_without_headers_is_refused(void **state)
{
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	struct lull_error err;
	char spec[32];

	(void)state;
	NEEDS_TAP();
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	assert_int_equal(ioctl(fd, TUNSETIFF, &ifr), 0);
	snprintf(spec, sizeof(spec), "fd=%d", fd);
	assert_null(net_host_open(spec, NULL, &err));
	assert_non_null(strstr(err.text, "IFF_VNET_HDR"));
	close(fd);
}

/* -------------------------------------------------------------------------------------------- frames */

static void frames_pass_both_ways(void **state)
{
	(void)state;
	NEEDS_TAP();
	open_tap("tap=vm0", 0);
	for (unsigned i = 0; i < 300; i++) {
		size_t len = 60 + i * 4;
		guest_offers_many(1, 1526);
		host_sends(len, i);
		settle();
		assert_guest_got(len, i, 1);
		guest_sends_frame(len, i + 1);
		assert_host_receives(len, i + 1);
	}
	assert_int_equal(rig.host->rx.dropped + rig.host->tx.dropped, 0);
	close_tap();
}

static void frames_wait_in_the_tap_for_buffers(void **state)
{
	(void)state;
	NEEDS_TAP();
	open_tap("tap=vm0", FEATURE(MRG_RXBUF));
	for (unsigned i = 0; i < 10; i++)
		host_sends(1000, i);
	settle(); /* quiet: nothing to do without buffers */
	/* Two at a time are less than the longest frame needs, but enough for these. */
	for (unsigned i = 0; i < 10; i++) {
		guest_offers_many(2, 600);
		settle();
		assert_guest_got(1000, i, 2);
	}
	assert_int_equal(rig.host->rx.dropped, 0);
	close_tap();
}

static void jumbo_frames_are_spread(void **state)
{
	(void)state;
	NEEDS_TAP();
	open_tap("tap=vm0,mtu=9000", FEATURE(MRG_RXBUF));
	guest_offers_many(40, 1526);
	host_sends(9000, 3);
	settle();
	assert_guest_got(9000, 3, 6);
	close_tap();
}

/* The interface takes longer frames than it did when we looked. */
static void a_frame_that_grew_is_dropped_not_cut(void **state)
{
	struct ifreq ifr = {.ifr_mtu = 4000};

	(void)state;
	NEEDS_TAP();
	open_tap("tap=vm0", 0);
	strcpy(ifr.ifr_name, "vm0");
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(ioctl(fd, SIOCSIFMTU, &ifr), 0);
	close(fd);
	guest_offers_many(4, 1526);
	host_sends(3000, 1);
	host_sends(1515, 2); /* one too many */
	host_sends(1514, 3);
	settle();
	assert_guest_got(1514, 3, 1);
	assert_int_equal(rig.host->rx.dropped, 2);
	close_tap();
}

/* ------------------------------------------------------------------------------------ it is taken away */

static void a_deleted_tap_takes_the_link_down(void **state)
{
	(void)state;
	NEEDS_TAP();
	for (unsigned with_buffers = 0; with_buffers < 2; with_buffers++) {
		open_tap("tap=vm0", FEATURE(STATUS));
		if (with_buffers)
			guest_offers_many(4, 1526);
		settle();
		delete_interface("vm0");
		if (!with_buffers)
			guest_sends_frame(60, 1);
		settle();
		assert_false(link_is_up());
		assert_int_equal(rig.warnings, 1);
		assert_non_null(strstr(rig.warning, "net tap vm0: its other end has gone"));
		guest_sends_frame(60, 1);
		settle();
		bring_up(FEATURE(STATUS));
		assert_false(link_is_up());
		assert_int_equal(rig.warnings, 1);
		close_tap();
	}
}

static void an_interface_that_is_down_drops_frames(void **state)
{
	(void)state;
	NEEDS_TAP();
	open_tap("tap=vm0", 0);
	guest_offers_many(4, 1526);
	set_up_or_down("vm0", false);
	guest_sends_frame(60, 1);
	settle();
	assert_int_equal(rig.host->tx.dropped, 1);
	assert_true(link_is_up());
	set_up_or_down("vm0", true);
	/* Being down is an error that a packet socket reports once. */
	int error;
	socklen_t size = sizeof(error);
	getsockopt(rig.peer, SOL_SOCKET, SO_ERROR, &error, &size);
	guest_sends_frame(60, 2);
	assert_host_receives(60, 2);
	host_sends(60, 3);
	settle();
	assert_guest_got(60, 3, 1);
	close_tap();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TAP(a_new_tap_is_up_and_goes_with_us),
		WITH_TAP(a_tap_without_a_name_gets_one),
		WITH_TAP(a_persistent_tap_stays_as_it_is),
		WITH_TAP(a_tap_for_several_queues_works_with_one),
		WITH_TAP(a_descriptor_of_a_tap_is_one),
		WITH_TAP(a_tap_without_headers_is_refused),
		WITH_TAP(frames_pass_both_ways),
		WITH_TAP(frames_wait_in_the_tap_for_buffers),
		WITH_TAP(jumbo_frames_are_spread),
		WITH_TAP(a_frame_that_grew_is_dropped_not_cut),
		WITH_TAP(a_deleted_tap_takes_the_link_down),
		WITH_TAP(an_interface_that_is_down_drops_frames),
	};

	return cmocka_run_group_tests(tests, enter_namespace, NULL);
}
