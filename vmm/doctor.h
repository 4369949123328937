/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.h - the two halves of lull_doctor(): what the host says of itself, and what a small VM finds out. */
#ifndef LULL_DOCTOR_H
#define LULL_DOCTOR_H

#include "lull.h"

struct kvm;

struct doctor {
	void (*line)(void *ctx, const char *verdict, const char *topic, const char *text);
	void *ctx;
};

/* verdict: "ok", "note", "warn" or "fail". */
void doctor_say(const struct doctor *d, const char *verdict, const char *topic, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Probes and times with a VM of its own. About a quarter of a second. */
int doctor_measure(const struct doctor *d, struct kvm *kvm, struct lull_error *err);

#endif
