// SPDX-License-Identifier: Apache-2.0
/* test_net_config.c - the texts of --net, and what opening says about those that lead nowhere. */
#include "net_config.h"

#include "lull.h"
#include "net_host.h"
#include "words.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct net_config parse(const char *spec)
{
	struct net_config c;
	struct lull_error err;

	if (net_config_parse(&c, spec, &err) != 0)
		fail_msg("%s: %s", spec, err.text);
	return c;
}

static void refuses(const char *spec, const char *text)
{
	struct net_config c;
	struct lull_error err = {0};

	assert_true(net_config_parse(&c, spec, &err) < 0);
	if (!strstr(err.text, text) || strncmp(err.text, "net", 3) != 0)
		fail_msg("%s: '%s' does not say '%s'", spec, err.text, text);
}

static void words_are_cut_at_single_commas(void **state)
{
	char text[] = "a,,b=1,,,c,,,d,", *word = text, *rest = words_cut(word);

	(void)state;
	assert_string_equal(word, "a,b=1,");
	word = rest;
	rest = words_cut(word);
	assert_string_equal(word, "c,");
	word = rest;
	rest = words_cut(word);
	assert_string_equal(word, "d");
	assert_string_equal(rest, "");
	assert_null(words_cut(rest));
}

static void sizes_have_suffixes(void **state)
{
	static const char *const bad[] = {
		"", "K", "1k", "-1", "+1", " 1", "1 ", "1KB", "0x1", "17179869184G", "18446744073709551616"};
	uint64_t n;

	(void)state;
	assert_true(words_size("12K", &n) && n == 12288);
	assert_true(words_size("17179869183G", &n) && n == 17179869183ull << 30);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(words_size(bad[i], &n));
}

static void every_host_end_is_known(void **state)
{
	(void)state;
	struct net_config c = parse("tap");
	assert_int_equal(c.kind, NET_TAP);
	assert_null(c.target);
	assert_int_equal(c.pairs, 1);
	assert_false(c.has_mac);
	c = parse("tap=vm0");
	assert_string_equal(c.target, "vm0");
	net_config_free(&c);
	c = parse("fd=7");
	assert_int_equal(c.kind, NET_FD);
	assert_int_equal(c.fd, 7);
	c = parse("socket=/tmp/a,,b");
	assert_int_equal(c.kind, NET_SOCKET);
	assert_string_equal(c.target, "/tmp/a,b");
	net_config_free(&c);
	c = parse("passt");
	assert_int_equal(c.kind, NET_PASST);
}

static void every_key_is_known(void **state)
{
	(void)state;
	struct net_config c = parse("tap,mac=02:AB:cd:00:11:ff,mtu=9000,queues=4,rate=10M,name=blue");
	assert_true(c.has_mac);
	assert_memory_equal(c.mac, "\x02\xab\xcd\x00\x11\xff", 6);
	assert_int_equal(c.mtu, 9000);
	assert_int_equal(c.pairs, 4);
	assert_int_equal(c.bytes_per_second, 10 << 20);
	assert_string_equal(c.name, "blue");
	net_config_free(&c);
	c = parse("mtu=68,tap"); /* in any order */
	assert_int_equal(c.mtu, NET_MTU_MIN);
}

static void what_makes_no_sense_is_refused(void **state)
{
	(void)state;
	refuses("", "is not known");
	refuses("mtu=1500", "leads nowhere");
	refuses("tap=a,tap=b", "two host ends");
	refuses("tap,passt", "two host ends");
	refuses("tap=a/b", "not the name of an interface");
	refuses("tap=%d", "not the name of an interface");
	refuses("tap=abcdefghijklmnop", "not the name of an interface");
	refuses("fd", "needs a value");
	refuses("fd=-1", "open descriptor");
	refuses("fd=2147483648", "open descriptor");
	refuses("fd=x", "open descriptor");
	refuses("socket=", "is empty");
	refuses("tap,mac=1:2:3:4:5:6", "give six bytes");
	refuses("tap,mac=02:00:00:00:00:01:", "give six bytes");
	refuses("tap,mac=02:00:00:00:00", "give six bytes");
	refuses("tap,mac=", "give six bytes");
	refuses("tap,mac=01:00:00:00:00:01", "not the address of one interface");
	refuses("tap,mac=00:00:00:00:00:00", "not the address of one interface");
	refuses("tap,mtu=67", "give 68 to 65521");
	refuses("tap,mtu=65522", "give 68 to 65521");
	refuses("tap,queues=0", "give 1 to 7");
	refuses("tap,queues=8", "give 1 to 7");
	refuses("fd=3,queues=2", "only a tap has several queues");
	refuses("tap,rate=0", "above 0");
	refuses("tap,name=", "name is empty");
	refuses("tap,nme=x", "'nme=x' is not known");
}

/* ------------------------------------------------------------------------------------------ opening */

static void cannot_open(const char *spec, const char *text)
{
	struct lull_error err = {0};

	assert_null(net_host_open(spec, NULL, &err));
	if (!strstr(err.text, text) || strncmp(err.text, "net", 3) != 0)
		fail_msg("%s: '%s' does not say '%s'", spec, err.text, text);
}

static void opening_says_what_is_wrong(void **state)
{
	char spec[64];
	int pair[2], null = open("/dev/null", O_RDWR | O_CLOEXEC), file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
	cannot_open("passt", "the library starts no process");
	cannot_open("fd=1000000", "net fd 1000000: Bad file descriptor");
	cannot_open("socket=/nowhere/at/all", "net socket /nowhere/at/all: nobody listens there");
	for (size_t i = 0; i < 3; i++) {
		snprintf(spec, sizeof(spec), "fd=%d", i == 0 ? null : i == 1 ? file : pair[0]);
		cannot_open(spec, "neither a tap nor a connected stream socket");
	}
	cannot_open(
		"socket=0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123"
		"45678901234567890",
		"at most 107 characters");
	close(pair[0]);
	close(pair[1]);
	close(null);
	close(file);
}

static void addresses_are_random_and_local(void **state)
{
	int pair[2];
	char spec[64];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	snprintf(spec, sizeof(spec), "fd=%d", pair[0]);
	struct net_host *a = net_host_open(spec, NULL, NULL), *b = net_host_open(spec, NULL, NULL);
	assert_true(a && b);
	assert_memory_not_equal(a->mac, b->mac, 6);
	assert_int_equal(a->mac[0] & 3, 2);
	net_host_close(a);
	net_host_close(b);
	net_host_close(NULL);
	assert_int_equal(send(pair[1], "x", 1, MSG_NOSIGNAL), 1); /* ours is still open */
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_are_cut_at_single_commas), cmocka_unit_test(sizes_have_suffixes),
		cmocka_unit_test(every_host_end_is_known),        cmocka_unit_test(every_key_is_known),
		cmocka_unit_test(what_makes_no_sense_is_refused), cmocka_unit_test(opening_says_what_is_wrong),
		cmocka_unit_test(addresses_are_random_and_local),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
