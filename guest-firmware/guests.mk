# SPDX-License-Identifier: Apache-2.0
# The tiny guests: guests/NAME.{c,S} becomes build/guests/NAME.elf (ELF64: PVH note, long mode entry), NAME.mb (the same
# as ELF32, for multiboot) and NAME.bin (flat, for 0x100000 in long mode). NAME.full has the symbols. Needs gcc and
# binutils, nothing else.

guest_dir := guest-firmware
guest_out := $(B)/guests
guest_names := $(sort $(basename $(notdir $(wildcard $(guest_dir)/guests/*.c $(guest_dir)/guests/*.S))))
guest_lib := $(patsubst $(guest_dir)/lib/%,$(guest_out)/lib/%.o,$(wildcard $(guest_dir)/lib/*.c $(guest_dir)/lib/*.S))

GUEST_CC := gcc
GUEST_FLAGS := -std=gnu11 -O2 -g -m64 -ffreestanding -mgeneral-regs-only -mno-red-zone -fno-pic -fno-pie -mcmodel=small \
	-fcf-protection=none -fno-stack-protector -fno-asynchronous-unwind-tables -fno-strict-aliasing -fno-common \
	-ffunction-sections -fdata-sections $(WARN) -Wno-array-bounds -I$(guest_dir)/lib -MMD -MP
GUEST_LINK := -nostdlib -static -no-pie -Wl,-z,max-page-size=4096,-z,noexecstack,--build-id=none,--gc-sections
# Loaders look for the multiboot magic before anything else, and some refuse an ELF64 file that has it.
guest_multiboot := -Wl,--defsym=multiboot_magic=0x1badb002,--defsym=multiboot_checksum=0xe4524ffb
guest_pvh := -Wl,--defsym=multiboot_magic=0,--defsym=multiboot_checksum=0
guest_STAMP := $(GUEST_CC) $(GUEST_FLAGS) $(GUEST_LINK)

# Those whose way in matters also in the other two forms.
guests: $(guest_names:%=$(guest_out)/%.elf) \
	$(foreach x,mb bin,$(patsubst %,$(guest_out)/%.$x,hello exit_now boot_info))

$(guest_out)/lib/%.o: $(guest_dir)/lib/% $(B)/flags-guest
	$(call say,GUEST,$<)
	$(Q)mkdir -p $(@D); $(GUEST_CC) $(GUEST_FLAGS) -c $< -o $@
$(guest_out)/obj/%.o: $(guest_dir)/guests/% $(B)/flags-guest
	$(call say,GUEST,$<)
	$(Q)mkdir -p $(@D); $(GUEST_CC) $(GUEST_FLAGS) -c $< -o $@
$(guest_out)/%.full: $(guest_out)/obj/%.c.o $(guest_lib) $(guest_dir)/lib/guest.ld
	$(Q)$(GUEST_CC) $(GUEST_LINK) $(guest_pvh) -T $(filter %.ld,$^) -o $@ $(filter %.o,$^) -lgcc
$(guest_out)/%.full32: $(guest_out)/obj/%.c.o $(guest_lib) $(guest_dir)/lib/guest.ld
	$(Q)$(GUEST_CC) $(GUEST_LINK) $(guest_multiboot) -T $(filter %.ld,$^) -o $@ $(filter %.o,$^) -lgcc
# Guests in assembly do without the runtime.
$(guest_out)/%.full: $(guest_out)/obj/%.S.o $(guest_dir)/lib/bare.ld
	$(Q)$(GUEST_CC) $(GUEST_LINK) $(guest_pvh) -T $(filter %.ld,$^) -o $@ $(filter %.o,$^)
$(guest_out)/%.full32: $(guest_out)/obj/%.S.o $(guest_dir)/lib/bare.ld
	$(Q)$(GUEST_CC) $(GUEST_LINK) $(guest_multiboot) -T $(filter %.ld,$^) -o $@ $(filter %.o,$^)
$(guest_out)/%.elf: $(guest_out)/%.full $(guest_out)/%.full32
	$(Q)objcopy --strip-all $< $@
$(guest_out)/%.mb: $(guest_out)/%.full32
	$(Q)objcopy --strip-all -O elf32-i386 $< $@
$(guest_out)/%.bin: $(guest_out)/%.full $(guest_out)/%.full32
	$(Q)objcopy -O binary $< $@
.PRECIOUS: $(B)/flags-guest $(guest_out)/obj/%.c.o $(guest_out)/obj/%.S.o $(guest_out)/lib/%.o $(guest_out)/%.full $(guest_out)/%.full32
