/* SPDX-License-Identifier: Apache-2.0 */
/* Names and keys of policies: what is accepted, and the line that says what is wrong. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lull.h"
#include "policy.h"

static uint64_t value(const char *text, size_t key)
{
	struct policy_spec spec;
	struct lull_error err = {0};
	if (policy_parse(&spec, text, NULL, &err))
		fail_msg("%s: %s", text, err.text);
	return spec.values[key];
}

static void every_name_in_the_list_is_found(void **unused)
{
	(void)unused;
	for (const struct policy *const *p = policies; *p; p++) {
		struct policy_spec spec;
		assert_int_equal(policy_parse(&spec, (*p)->name, NULL, NULL), 0);
		assert_ptr_equal(spec.policy, *p);
		assert_true((*p)->state_bytes <= POLICY_STATE_BYTES);
		assert_true(strlen((*p)->summary) > 0);
	}
}

static void presets_are_kvms(void **unused)
{
	(void)unused;
	assert_int_equal(value("kvm", 0), 200000);
	assert_int_equal(value("kvm", 1), 2);
	assert_int_equal(value("kvm", 2), 10000);
	assert_int_equal(value("kvm", 3), 2);
	assert_int_equal(value("haltpoll", 0), 200000);
	assert_int_equal(value("haltpoll", 2), 50000);
	assert_int_equal(value("cost", 0), 2000);
}

static void times_take_units(void **unused)
{
	(void)unused;
	assert_int_equal(value("fixed:50000", 0), 50000);
	assert_int_equal(value("fixed:50us", 0), 50000);
	assert_int_equal(value("fixed:window=70ns", 0), 70);
	assert_int_equal(value("fixed:2ms", 0), 2000000);
	assert_int_equal(value("fixed:1s", 0), 1000000000);
	assert_int_equal(value("fixed:0", 0), 0);
	assert_int_equal(value("kvm:max=4294967295", 0), UINT32_MAX);
}

static void keys_come_in_any_order(void **unused)
{
	(void)unused;
	assert_int_equal(value("kvm:shrink=0,max=50us,start=5us,grow=3", 0), 50000);
	assert_int_equal(value("kvm:shrink=0,max=50us,start=5us,grow=3", 1), 3);
	assert_int_equal(value("kvm:shrink=0,max=50us,start=5us,grow=3", 2), 5000);
	assert_int_equal(value("kvm:shrink=0,max=50us,start=5us,grow=3", 3), 0);
	assert_int_equal(value("kvm:50us,shrink=0", 0), 50000);
}

static void lambda_is_a_word_or_a_fraction(void **unused)
{
	(void)unused;
	assert_int_equal(value("cost:powersave", 0), 250);
	assert_int_equal(value("cost:balanced", 0), 2000);
	assert_int_equal(value("cost:latency", 0), 8000);
	assert_int_equal(value("cost:lambda=latency", 0), 8000);
	assert_int_equal(value("cost:lambda=0.25", 0), 250);
	assert_int_equal(value("cost:1.5", 0), 1500);
	assert_int_equal(value("cost:16", 0), 16000);
	assert_int_equal(value("cost:lambda=0.125,prewake=off", 0), 125);
	assert_int_equal(value("cost:lambda=0.125,prewake=off", 1), 0);
}

static const struct bad {
	const char *text, *line;
} bad[] = {
	{"", "halt-poll: '' is not a policy; use none, fixed, always, kvm, haltpoll or cost"},
	{"adaptive", "halt-poll: 'adaptive' is not a policy; use none, fixed, always, kvm, haltpoll or cost"},
	{"kvm2:max=1", "halt-poll: 'kvm2' is not a policy; use none, fixed, always, kvm, haltpoll or cost"},
	{"KVM", "halt-poll: 'KVM' is not a policy; use none, fixed, always, kvm, haltpoll or cost"},
	{"none:1", "halt-poll: none takes no values, found '1'; use none alone"},
	{"always:", "halt-poll: always takes no values, found ''; use always alone"},
	{"kvm:grwo=2", "halt-poll: kvm has no key 'grwo'; use max, grow, start or shrink"},
	{"kvm:=2", "halt-poll: kvm has no key ''; use max, grow, start or shrink"},
	{"kvm:grow=2,grow=3", "halt-poll: kvm: grow is given twice; give it once"},
	{"kvm:1,2", "halt-poll: kvm: max is given twice; give it once"},
	{"kvm:grow=", "halt-poll: kvm: grow cannot be ''; give a number from 0 to 4294967295"},
	{"kvm:grow=-1", "halt-poll: kvm: grow cannot be '-1'; give a number from 0 to 4294967295"},
	{"kvm:grow=4294967296", "halt-poll: kvm: grow cannot be '4294967296'; give a number from 0 to 4294967295"},
	{"kvm:grow=2us", "halt-poll: kvm: grow cannot be '2us'; give a number from 0 to 4294967295"},
	{"fixed:", "halt-poll: fixed: window cannot be ''; give a time in ns, or with us, ms or s behind it, from 0 to "
                   "1000000000"},
	{"fixed:1m",
         "halt-poll: fixed: window cannot be '1m'; give a time in ns, or with us, ms or s behind it, from 0 to "
         "1000000000"},
	{"fixed:99999999999999999999",
         "halt-poll: fixed: window cannot be '99999999999999999999'; give a time in ns, or "
         "with us, ms or s behind it, from 0 to 1000000000"},
	{"fixed:18446744073709551615s",
         "halt-poll: fixed: window cannot be '18446744073709551615s'; give a time in ns, "
         "or with us, ms or s behind it, from 0 to 1000000000"},
	{"fixed:5 ",
         "halt-poll: fixed: window cannot be '5 '; give a time in ns, or with us, ms or s behind it, from 0 to "
         "1000000000"},
	{"kvm:max=1,", "halt-poll: kvm: max is given twice; give it once"},
	{"cost:fast",
         "halt-poll: cost: lambda cannot be 'fast'; give powersave, balanced, latency, or a number such as "
         "0.25 from 0.01 to 1000"},
	{"cost:1.2345",
         "halt-poll: cost: lambda cannot be '1.2345'; give powersave, balanced, latency, or a number such "
         "as 0.25 from 0.01 to 1000"},
	{"cost:.5", "halt-poll: cost: lambda cannot be '.5'; give powersave, balanced, latency, or a number such as "
                    "0.25 from 0.01 to 1000"},
	{"cost:1.", "halt-poll: cost: lambda cannot be '1.'; give powersave, balanced, latency, or a number such as "
                    "0.25 from 0.01 to 1000"},
	{"cost:0", "halt-poll: cost: lambda cannot be '0'; give powersave, balanced, latency, or a number such as "
                   "0.25 from 0.01 to 1000"},
	{"cost:prewake=2", "halt-poll: cost: prewake cannot be '2'; give off, on, or a number from 0 to 1"},
};

static void every_mistake_has_its_line(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct policy_spec spec;
		struct lull_error err = {0};
		assert_int_equal(policy_parse(&spec, bad[i].text, NULL, &err), -EINVAL);
		assert_string_equal(err.text, bad[i].line);
	}
}

static void long_rubbish_is_cut_in_the_line(void **unused)
{
	char text[4096];
	struct policy_spec spec;
	struct lull_error err = {0};
	(void)unused;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	assert_int_equal(policy_parse(&spec, text, NULL, &err), -EINVAL);
	assert_true(strlen(err.text) < 150);
	memcpy(text, "kvm:", 4);
	assert_int_equal(policy_parse(&spec, text, NULL, &err), -EINVAL);
	assert_true(strlen(err.text) < 150);
}

static void sleep_plan(void *state, const struct policy_hint *hint, struct policy_plan *plan)
{
	(void)state, (void)hint;
	*plan = (struct policy_plan){.sleep_ns = POLICY_NEVER};
}

static void a_program_can_add_and_replace_policies(void **unused)
{
	static const struct policy mine = {.name = "mine", .summary = "-", .plan = sleep_plan};
	static const struct policy other_kvm = {.name = "kvm", .summary = "-", .plan = sleep_plan};
	const struct policy *const more[] = {&mine, &other_kvm, NULL};
	struct policy_spec spec;
	struct lull_error err = {0};
	(void)unused;
	assert_int_equal(policy_parse(&spec, "mine", more, &err), 0);
	assert_ptr_equal(spec.policy, &mine);
	assert_int_equal(policy_parse(&spec, "kvm", more, &err), 0);
	assert_ptr_equal(spec.policy, &other_kvm);
	assert_int_equal(policy_parse(&spec, "cost", more, &err), 0);
	assert_ptr_equal(spec.policy, &policy_cost);
	assert_int_equal(policy_parse(&spec, "yours", more, &err), -EINVAL);
	assert_string_equal(
		err.text,
		"halt-poll: 'yours' is not a policy; use mine, kvm, none, fixed, always, kvm, haltpoll or cost");
}

static void a_new_state_has_forgotten_the_old_one(void **unused)
{
	_Alignas(64) unsigned char a[POLICY_STATE_BYTES], b[POLICY_STATE_BYTES];
	(void)unused;
	for (const struct policy *const *p = policies; *p; p++) {
		struct policy_spec spec;
		assert_int_equal(policy_parse(&spec, (*p)->name, NULL, NULL), 0);
		memset(a, 0xa5, sizeof(a));
		memset(b, 0x5a, sizeof(b));
		policy_init(&spec, a, NULL);
		policy_init(&spec, b, NULL);
		assert_memory_equal(a, b, (*p)->state_bytes ? (*p)->state_bytes : 0);
		if ((*p)->state_bytes < sizeof(a))
			assert_int_equal(a[(*p)->state_bytes], 0xa5);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_name_in_the_list_is_found),
		cmocka_unit_test(presets_are_kvms),
		cmocka_unit_test(times_take_units),
		cmocka_unit_test(keys_come_in_any_order),
		cmocka_unit_test(lambda_is_a_word_or_a_fraction),
		cmocka_unit_test(every_mistake_has_its_line),
		cmocka_unit_test(long_rubbish_is_cut_in_the_line),
		cmocka_unit_test(a_program_can_add_and_replace_policies),
		cmocka_unit_test(a_new_state_has_forgotten_the_old_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
