// SPDX-License-Identifier: Apache-2.0
/* machine_text.c - the board and its memory map in columns, for people. */
#include "machine.h"

#include "util.h"

/* The range as two columns of hexadecimal, and its size in the largest unit that divides it. */
static void text_range(FILE *out, uint64_t base, uint64_t size, bool is_port)
{
	static const char units[] = "BKMGT";
	uint64_t last = base + size - 1;
	int digits = is_port ? 4 : 9;
	unsigned unit = 0;
	char ends[2][24];

	while (size % 1024 == 0 && unit < sizeof(units) - 2) {
		size /= 1024;
		unit++;
	}
	snprintf(ends[0], sizeof(ends[0]), "0x%0*llx", digits, (unsigned long long)base);
	snprintf(ends[1], sizeof(ends[1]), "0x%0*llx", digits, (unsigned long long)last);
	fprintf(out, "%-12s  %-12s  %5llu%c", ends[0], ends[1], (unsigned long long)size, units[unit]);
}

/* Closes the stream; NULL when memory ran out on the way. */
static char *text_end(FILE *out, char **text)
{
	bool failed = ferror(out);

	if (fclose(out) != 0 || failed) {
		free(*text);
		return NULL;
	}
	return *text;
}

static void text_entry(FILE *out, const struct machine_entry *entry)
{
	char gsi[12] = "-";

	if (entry->gsi >= 0)
		snprintf(gsi, sizeof(gsi), "%d", entry->gsi);
	fprintf(out, "%-6s  ", entry->is_mmio ? "memory" : "port");
	text_range(out, entry->base, entry->size, !entry->is_mmio);
	fprintf(out, "  %3s  %-7s  %-13s  %s\n", gsi, entry->gsi < 0 ? "-" : (entry->level ? "level" : "edge"),
	        machine_kind_name(entry->kind), entry->name);
}

char *machine_text(const struct machine *m)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	fprintf(out, "vcpus   %u", m->vcpus);
	if (m->vcpus > 1)
		fprintf(out, ", APIC IDs 0 to %u", m->vcpus - 1);
	if (m->tsc_khz)
		fprintf(out, ", TSC %llu.%03llu MHz", (unsigned long long)(m->tsc_khz / 1000),
		        (unsigned long long)(m->tsc_khz % 1000));
	fprintf(out, "\n\n%-6s  %-12s  %-12s  %6s  %3s  %-7s  %-13s  %s\n", "space", "first", "last", "size", "gsi",
	        "trigger", "kind", "name");
	for (unsigned i = 0; i < m->ram_count; i++) {
		fprintf(out, "%-6s  ", "memory");
		text_range(out, m->ram[i].base, m->ram[i].size, false);
		fprintf(out, "  %3s  %-7s  %-13s  %s\n", "-", "-", "ram", i ? "RAM above 4 GiB" : "RAM");
	}
	for (unsigned i = 0; i < m->count; i++)
		text_entry(out, &m->entries[i]);
	return text_end(out, &text);
}

char *e820_text(const struct machine *m)
{
	struct e820_entry map[E820_MAX];
	unsigned count = machine_e820(m, map);
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	fprintf(out, "%-12s  %-12s  %6s  %s\n", "first", "last", "size", "type");
	for (unsigned i = 0; i < count; i++) {
		text_range(out, map[i].addr, map[i].size, false);
		fprintf(out, "  %u %s\n", map[i].type, map[i].type == E820_RAM ? "RAM" : "reserved");
	}
	return text_end(out, &text);
}
