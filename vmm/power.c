/* SPDX-License-Identifier: Apache-2.0 */
/*
 * power.c - reads scaling_driver, scaling_governor and energy_performance_preference of one CPU.
 *
 * A driver that sets its own policy (intel_pstate in active mode, amd-pstate-epp) calls its everyday governor
 * "powersave"; what the owner wants is then in the energy preference. With all others "powersave" is the lowest
 * frequency. Sources: Documentation/admin-guide/pm/{cpufreq,intel_pstate,amd-pstate}.rst.
 */
#include "power.h"

#include "error.h"
#include "text_file.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define WORD_BYTES 64

int power_parse(enum power_mode *mode, const char *word, struct lull_error *err)
{
	static const char *const words[] = {"ignore", "strict", "smart"};
	for (unsigned i = 0; i < 3; i++) {
		if (!strcmp(word, words[i])) {
			*mode = (enum power_mode)i;
			return 0;
		}
	}
	return error_set(err, -EINVAL, "powersave: '%s' is not a mode; use ignore, strict or smart", word);
}

void power_init(struct power *p, enum power_mode mode, const char *sysfs)
{
	*p = (struct power){.mode = mode, .sysfs = sysfs};
}

/* The word in a file of the CPU's cpufreq directory; "" when there is none. */
static void read_word(const struct power *p, int cpu, const char *file, char word[static WORD_BYTES])
{
	text_file_head(word, WORD_BYTES, "%s/devices/system/cpu/cpu%d/cpufreq/%s", p->sysfs, cpu, file);
	word[strcspn(word, " \n")] = 0;
}

static bool look(const struct power *p, int cpu)
{
	char governor[WORD_BYTES], driver[WORD_BYTES], preference[WORD_BYTES];
	read_word(p, cpu, "scaling_governor", governor);
	if (strcasecmp(governor, "powersave") != 0)
		return false;
	if (p->mode == POWER_STRICT)
		return true;
	read_word(p, cpu, "scaling_driver", driver);
	if (strcmp(driver, "intel_pstate") != 0 && strcmp(driver, "amd-pstate-epp") != 0)
		return true;
	read_word(p, cpu, "energy_performance_preference", preference);
	return !strcmp(preference, "power") || !strcmp(preference, "balance_power");
}

static bool is_good(const struct power_answer *a, int cpu, uint64_t now_ns, uint64_t polled_ns)
{
	uint64_t age_ns = now_ns - a->asked_ns;
	if (a->cpu != cpu || !a->asked_ns)
		return false;
	return age_ns < POWER_PERIOD_NS ||
	       (!a->saves && polled_ns - a->polled_ns < POWER_WORTH_NS && age_ns < POWER_LONGEST_NS);
}

bool power_saves(struct power *p, int cpu, uint64_t now_ns, uint64_t polled_ns)
{
	if (p->mode == POWER_IGNORE || cpu < 0)
		return false;
	struct power_answer *a = &p->answers[(unsigned)cpu % POWER_ANSWERS];
	if (!is_good(a, cpu, now_ns, polled_ns)) {
		p->reads++;
		*a = (struct power_answer){
			.asked_ns = now_ns, .polled_ns = polled_ns, .cpu = cpu, .saves = look(p, cpu)};
	}
	return a->saves;
}
