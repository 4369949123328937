/* SPDX-License-Identifier: Apache-2.0 */
/* cli_tty.h - the terminal: raw while the guest has it, as it was before on every way out. */
#ifndef LULL_CLI_TTY_H
#define LULL_CLI_TTY_H

#include <stdbool.h>

/* True when stdin may be read now: not a terminal, or one whose foreground job we are. */
bool cli_tty_may_read(void);

/* Makes the terminal raw, or sees that it still is. False when stdin and stdout are not both terminals or when we are
 * not the foreground job: then the terminal is left to those who have it. The main thread only, like leave. */
bool cli_tty_enter(void);
void cli_tty_leave(void);  /* as it was before; fine when not raw */
bool cli_tty_is_raw(void); /* any thread */

#endif
