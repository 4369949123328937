/* SPDX-License-Identifier: Apache-2.0 */
#include "lull.h"

int lull_doctor(void (*line)(void *ctx, const char *verdict, const char *topic, const char *text), void *ctx)
{
	(void)line; (void)ctx; return 0;
}
