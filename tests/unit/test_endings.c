// SPDX-License-Identifier: Apache-2.0
/* test_endings.c - the small ports by which a guest ends or resets the machine, and the debug console. */
#include "debug_console.h"
#include "endings.h"
#include "lull.h"

#include "util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct world {
	unsigned requests;
	enum board_request kind;
	uint32_t code;
	unsigned lines;
	char console[16];
	size_t console_len;
};

static void request(void *ctx, enum board_request kind, uint32_t code)
{
	struct world *w = ctx;

	w->requests++;
	w->kind = kind;
	w->code = code;
}

static void log_fn(void *ctx, enum lull_log_level level, const char *line)
{
	struct world *w = ctx;

	assert_int_equal(level, LULL_LOG_WARN);
	assert_non_null(strstr(line, "pvpanic"));
	w->lines++;
}

static void put(void *ctx, uint8_t byte)
{
	struct world *w = ctx;

	w->console[w->console_len++] = (char)byte;
}

static void i8042_resets_by_its_reset_line_only(void **state)
{
	struct world w = {0};
	struct board_sink board = {request, &w};
	struct i8042 kbd;

	(void)state;
	i8042_init(&kbd, &board);
	assert_int_equal(i8042_command_ops.read(&kbd, 0, 1), 0);
	assert_int_equal(i8042_data_ops.read(&kbd, 0, 1), 0);
	for (unsigned command = 0; command < 0x100; command++) {
		w.requests = 0;
		i8042_command_ops.write(&kbd, 0, 1, command);
		assert_int_equal(w.requests, command >= 0xf0 && command % 2 == 0);
	}
	i8042_command_ops.write(&kbd, 0, 1, 0xfe);
	assert_int_equal(w.kind, BOARD_RESET);
}

static void i8042_output_port_write_can_reset(void **state)
{
	struct world w = {0};
	struct board_sink board = {request, &w};
	struct i8042 kbd;

	(void)state;
	i8042_init(&kbd, &board);
	i8042_data_ops.write(&kbd, 0, 1, 0x00); /* no command before it */
	i8042_command_ops.write(&kbd, 0, 1, 0xd1);
	i8042_data_ops.write(&kbd, 0, 1, 0xdf); /* A20 on, as boot code does */
	i8042_data_ops.write(&kbd, 0, 1, 0x00); /* only one byte belongs to the command */
	i8042_command_ops.write(&kbd, 0, 1, 0xd1);
	i8042_reset(&kbd);
	i8042_data_ops.write(&kbd, 0, 1, 0x00);
	assert_int_equal(w.requests, 0);
	i8042_command_ops.write(&kbd, 0, 1, 0xd1);
	i8042_data_ops.write(&kbd, 0, 1, 0xde);
	assert_int_equal(w.requests, 1);
	assert_int_equal(w.kind, BOARD_RESET);
}

static void port_b_has_no_nmi_source_and_timer_output_high(void **state)
{
	struct port_b port;
	uint64_t first, second;

	(void)state;
	port_b_init(&port);
	port_b_ops.write(&port, 0, 1, 0xff);
	first = port_b_ops.read(&port, 0, 1);
	second = port_b_ops.read(&port, 0, 1);
	assert_int_equal(first & ~0x10ull, 0x2f);
	assert_int_equal(first ^ second, 0x10); /* refresh toggles */
	port_b_reset(&port);
	assert_int_equal(port_b_ops.read(&port, 0, 1) & 0xcf, 0);
}

static void reset_port_resets_on_bit_2(void **state)
{
	struct world w = {0};
	struct board_sink board = {request, &w};
	struct reset_port port;

	(void)state;
	reset_port_init(&port, &board);
	reset_port_ops.write(&port, 0, 1, 0x02); /* as Linux: select, then pull */
	assert_int_equal(reset_port_ops.read(&port, 0, 1), 0x02);
	assert_int_equal(w.requests, 0);
	reset_port_ops.write(&port, 0, 1, 0x06);
	assert_int_equal(w.requests, 1);
	assert_int_equal(w.kind, BOARD_RESET);
	assert_int_equal(reset_port_ops.read(&port, 0, 1), 0x02);
	reset_port_reset(&port);
	assert_int_equal(reset_port_ops.read(&port, 0, 1), 0);
}

static void debug_exit_passes_the_value_as_wide_as_it_was(void **state)
{
	struct world w = {0};
	struct board_sink board = {request, &w};
	struct debug_exit port;

	(void)state;
	debug_exit_init(&port, &board);
	debug_exit_ops.write(&port, 0, 1, 0x12345678);
	assert_int_equal(w.code, 0x78);
	debug_exit_ops.write(&port, 0, 2, 0x12345678);
	assert_int_equal(w.code, 0x5678);
	debug_exit_ops.write(&port, 0, 4, 0xff12345678);
	assert_int_equal(w.code, 0x12345678);
	assert_int_equal(w.kind, BOARD_DEBUG_EXIT);
	assert_int_equal(w.requests, 3);
	assert_int_equal(debug_exit_ops.read(&port, 0, 4), 0);
}

static void pvpanic_tells_panic_from_crash_kernel(void **state)
{
	struct world w = {0};
	struct board_sink board = {request, &w};
	struct log log = {log_fn, &w, LULL_LOG_DEBUG};
	struct pvpanic port;

	(void)state;
	pvpanic_init(&port, &board, &log);
	assert_int_equal(pvpanic_ops.read(&port, 0, 1), 3);
	pvpanic_ops.write(&port, 0, 1, 0x04);
	assert_int_equal(w.requests, 0);
	pvpanic_ops.write(&port, 0, 1, PVPANIC_CRASHLOADED);
	assert_int_equal(w.requests, 0);
	assert_int_equal(w.lines, 1);
	pvpanic_ops.write(&port, 0, 1, PVPANIC_PANICKED);
	assert_int_equal(w.requests, 1);
	assert_int_equal(w.kind, BOARD_PANIC);
	assert_int_equal(w.code, 1);
	for (unsigned i = 0; i < 1000; i++)
		pvpanic_ops.write(&port, 0, 1, PVPANIC_CRASHLOADED);
	assert_true(w.lines <= LOG_GUEST_MAX + 1);
}

static void say(struct shutdown_port *port, const char *text)
{
	while (*text)
		shutdown_port_ops.write(port, 0, 1, (uint8_t)*text++);
}

static void shutdown_needs_the_whole_word(void **state)
{
	struct world w = {0};
	struct board_sink board = {request, &w};
	struct shutdown_port port;

	(void)state;
	shutdown_port_init(&port, &board);
	say(&port, "Shutdow");
	say(&port, "shutdown");
	say(&port, "Shut down");
	say(&port, "Shutdow");
	shutdown_port_reset(&port);
	say(&port, "n");
	for (unsigned i = 0; i < 1000; i++)
		say(&port, "S\xff");
	assert_int_equal(w.requests, 0);
	say(&port, "ShSShutdown");
	assert_int_equal(w.requests, 1);
	assert_int_equal(w.kind, BOARD_POWEROFF);
	say(&port, "Shutdown");
	assert_int_equal(w.requests, 2);
}

static void nobody_needs_to_listen(void **state)
{
	struct board_sink none = {0};
	struct debug_console console = {0};
	struct reset_port reset;
	struct pvpanic panic;

	(void)state;
	reset_port_init(&reset, &none);
	reset_port_ops.write(&reset, 0, 1, 6);
	pvpanic_init(&panic, &none, NULL);
	pvpanic_ops.write(&panic, 0, 1, 3);
	debug_console_ops.write(&console, 0, 1, 'x');
}

static void debug_console_is_found_and_passes_bytes(void **state)
{
	struct world w = {0};
	struct debug_console console = {put, &w};

	(void)state;
	assert_int_equal(debug_console_ops.read(&console, 0, 1), 0xe9);
	debug_console_ops.write(&console, 0, 1, 'o');
	debug_console_ops.write(&console, 0, 1, 0x100 | 'k');
	assert_string_equal(w.console, "ok");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(i8042_resets_by_its_reset_line_only),
		cmocka_unit_test(i8042_output_port_write_can_reset),
		cmocka_unit_test(port_b_has_no_nmi_source_and_timer_output_high),
		cmocka_unit_test(reset_port_resets_on_bit_2),
		cmocka_unit_test(debug_exit_passes_the_value_as_wide_as_it_was),
		cmocka_unit_test(pvpanic_tells_panic_from_crash_kernel),
		cmocka_unit_test(shutdown_needs_the_whole_word),
		cmocka_unit_test(nobody_needs_to_listen),
		cmocka_unit_test(debug_console_is_found_and_passes_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
