/* SPDX-License-Identifier: Apache-2.0 */
/* policy.c - the list of policies, and "name:key=value,..." read by the key tables of the policies. */
#include "policy.h"

#include "error.h"
#include "util.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct policy *const policies[] = {
	&policy_none, &policy_fixed, &policy_always, &policy_kvm, &policy_haltpoll, &policy_cost, NULL,
};

/* Text that is cut off at the end instead of overflowing. */
struct text {
	char buf[256];
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	int n = vsnprintf(t->buf + t->used, sizeof(t->buf) - t->used, fmt, args);
	va_end(args);
	if (n > 0)
		t->used += (size_t)n < sizeof(t->buf) - t->used ? (size_t)n : sizeof(t->buf) - t->used - 1;
}

/* Between two of a list: ", " and before the last one " or ". */
static const char *comma(bool first, bool last)
{
	if (first)
		return "";
	return last ? " or " : ", ";
}

static const struct policy *find(const struct policy *const *list, const char *name, size_t length)
{
	for (; list && *list; list++)
		if (strlen((*list)->name) == length && !strncmp((*list)->name, name, length))
			return *list;
	return NULL;
}

static int unknown_policy(const char *name, size_t length, const struct policy *const *more, struct lull_error *err)
{
	struct text t = {0};

	for (const struct policy *const *p = more; p && *p; p++)
		add(&t, "%s, ", (*p)->name);
	for (const struct policy *const *p = policies; *p; p++)
		add(&t, "%s%s", comma(p == policies, !p[1]), (*p)->name);
	return error_set(err, -EINVAL, "halt-poll: '%.*s' is not a policy; use %s", (int)policy_min(length, 40), name,
	                 t.buf);
}

static int unknown_key(const struct policy *policy, const char *name, size_t length, struct lull_error *err)
{
	struct text t = {0};

	for (const struct policy_key *k = policy->keys; k->name; k++)
		add(&t, "%s%s", comma(k == policy->keys, !k[1].name), k->name);
	return error_set(err, -EINVAL, "halt-poll: %s has no key '%.*s'; use %s", policy->name,
	                 (int)policy_min(length, 40), name, t.buf);
}

static int bad_value(const struct policy *policy, const struct policy_key *key, const char *value, size_t length,
                     struct lull_error *err)
{
	static const char *const kinds[] = {
		[POLICY_KEY_COUNT] = "a number",
		[POLICY_KEY_TIME] = "a time in ns, or with us, ms or s behind it,",
		[POLICY_KEY_RATIO] = "a number such as 0.25",
	};
	struct text t = {0};

	for (const struct policy_word *w = key->words; w && w->word; w++)
		add(&t, "%s, ", w->word);
	add(&t, "%s%s from ", t.used ? "or " : "", kinds[key->kind]);
	if (key->kind == POLICY_KEY_RATIO)
		add(&t, "%g to %g", (double)key->min / 1000, (double)key->max / 1000);
	else
		add(&t, "%llu to %llu", (unsigned long long)key->min, (unsigned long long)key->max);
	return error_set(err, -EINVAL, "halt-poll: %s: %s cannot be '%.*s'; give %s", policy->name, key->name,
	                 (int)policy_min(length, 40), value, t.buf);
}

/* Digits at *at up to end; false: there are none, or too many. */
static bool read_digits(const char **at, const char *end, uint64_t *out)
{
	const char *start = *at;

	for (*out = 0; *at < end && **at >= '0' && **at <= '9'; (*at)++)
		if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, (uint64_t)(**at - '0'), out))
			return false;
	return *at > start;
}

/* ".25" of a number in thousandths. */
static bool read_thousandths(const char **at, const char *end, uint64_t *out)
{
	uint64_t unit = 1000;
	const char *start;

	if (__builtin_mul_overflow(*out, 1000, out))
		return false;
	if (*at == end || **at != '.')
		return true;
	for (start = ++*at; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
		unit /= 10;
		if (!unit || __builtin_add_overflow(*out, (uint64_t)(**at - '0') * unit, out))
			return false;
	}
	return *at > start;
}

static bool read_unit(const char **at, const char *end, uint64_t *out)
{
	static const struct policy_word units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};

	if (*at == end)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		size_t length = strlen(units[i].word);
		if ((size_t)(end - *at) == length && !strncmp(*at, units[i].word, length)) {
			*at = end;
			return !__builtin_mul_overflow(*out, units[i].value, out);
		}
	}
	return false;
}

static bool read_value(const struct policy_key *key, const char *value, const char *end, uint64_t *out)
{
	for (const struct policy_word *w = key->words; w && w->word; w++)
		if (strlen(w->word) == (size_t)(end - value) && !strncmp(w->word, value, (size_t)(end - value))) {
			*out = w->value;
			return true;
		}
	if (!read_digits(&value, end, out))
		return false;
	if (key->kind == POLICY_KEY_TIME && !read_unit(&value, end, out))
		return false;
	if (key->kind == POLICY_KEY_RATIO && !read_thousandths(&value, end, out))
		return false;
	return value == end && *out >= key->min && *out <= key->max;
}

/* One "key=value" or "value", from at to end. seen: bit for each key that was given already. */
static int read_setting(struct policy_spec *spec, const char *at, const char *end, uint32_t *seen,
                        struct lull_error *err)
{
	const struct policy_key *key = spec->policy->keys;
	const char *equals = memchr(at, '=', (size_t)(end - at));
	const char *value = equals ? equals + 1 : at;
	size_t length = equals ? (size_t)(equals - at) : 0;

	while (equals && key->name && (strlen(key->name) != length || strncmp(key->name, at, length) != 0))
		key++;
	if (!key->name)
		return unknown_key(spec->policy, at, length, err);
	size_t i = (size_t)(key - spec->policy->keys);
	if (*seen & 1u << i)
		return error_set(err, -EINVAL, "halt-poll: %s: %s is given twice; give it once", spec->policy->name,
		                 key->name);
	*seen |= 1u << i;
	if (!read_value(key, value, end, &spec->values[i]))
		return bad_value(spec->policy, key, value, (size_t)(end - value), err);
	return 0;
}

int policy_parse(struct policy_spec *spec, const char *text, const struct policy *const *more, struct lull_error *err)
{
	size_t length = strcspn(text, ":");
	const struct policy *policy = find(more, text, length);
	uint32_t seen = 0;

	*spec = (struct policy_spec){0};
	if (!policy)
		policy = find(policies, text, length);
	if (!policy)
		return unknown_policy(text, length, more, err);
	spec->policy = policy;
	for (size_t i = 0; policy->keys && policy->keys[i].name; i++) {
		invariant(i < POLICY_KEYS);
		spec->values[i] = policy->keys[i].preset;
	}
	if (!text[length])
		return 0;
	if (!policy->keys)
		return error_set(err, -EINVAL, "halt-poll: %s takes no values, found '%.40s'; use %s alone",
		                 policy->name, text + length + 1, policy->name);
	for (const char *at = text + length + 1, *end;; at = end + 1) {
		end = at + strcspn(at, ",");
		int ret = read_setting(spec, at, end, &seen, err);
		if (ret)
			return ret;
		if (!*end)
			return 0;
	}
}

void policy_init(const struct policy_spec *spec, void *state, const struct policy_host *host)
{
	static const struct policy_host unknown;

	memset(state, 0, spec->policy->state_bytes);
	if (spec->policy->init)
		spec->policy->init(state, spec->values, host ? host : &unknown);
}
