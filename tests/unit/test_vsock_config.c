// SPDX-License-Identifier: Apache-2.0
/* test_vsock_config.c - the texts of --vsock. */
#include "vsock_config.h"

#include "lull.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void refuses(const char *spec, const char *text)
{
	struct vsock_config c;
	struct lull_error err = {0};

	assert_true(vsock_config_parse(&c, spec, &err) < 0);
	if (!strstr(err.text, text) || strncmp(err.text, "vsock", 5) != 0)
		fail_msg("%s: '%s' does not say '%s'", spec, err.text, text);
}

static void takes_both_in_any_order(void **state)
{
	struct vsock_config c;

	(void)state;
	assert_int_equal(vsock_config_parse(&c, "cid=3,socket=/run/a,,b", NULL), 0);
	assert_int_equal(c.cid, 3);
	assert_string_equal(c.path, "/run/a,b");
	vsock_config_free(&c);
	assert_int_equal(vsock_config_parse(&c, "socket=x,cid=4294967294", NULL), 0);
	assert_int_equal(c.cid, 4294967294u);
	vsock_config_free(&c);
}

static void refuses_what_is_wrong(void **state)
{
	char spec[160];

	(void)state;
	refuses("", "not known");
	refuses("cid=3", "socket is missing");
	refuses("socket=/x", "cid is missing");
	refuses("cid=2,socket=/x", "cid '2'");
	refuses("cid=0,socket=/x", "cid '0'");
	refuses("cid=4294967295,socket=/x", "cid '4294967295'");
	refuses("cid=4294967299,socket=/x", "cid '4294967299'");
	refuses("cid=three,socket=/x", "cid 'three'");
	refuses("cid=,socket=/x", "cid ''");
	refuses("cid=3,socket=", "empty");
	refuses("cid=3,socket=/x,port=1", "'port=1' is not known");
	/* 107 characters are what a socket takes, 11 of them for the port. */
	snprintf(spec, sizeof(spec), "cid=3,socket=%097d", 0);
	refuses(spec, "97 characters, 96 leave room");
	struct vsock_config c;
	snprintf(spec, sizeof(spec), "cid=3,socket=%096d", 0);
	assert_int_equal(vsock_config_parse(&c, spec, NULL), 0);
	vsock_config_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_both_in_any_order),
		cmocka_unit_test(refuses_what_is_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
