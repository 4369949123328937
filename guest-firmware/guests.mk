# SPDX-License-Identifier: Apache-2.0
# The tiny guests: build/guests/NAME.elf. Needs gcc and binutils, nothing else.
guests: $(B)/guests/demo.elf
$(B)/guests/demo.elf: guest-firmware/guests/demo.c
	$(call say,GUEST,$@)
	$(Q)mkdir -p $(@D); gcc -O2 -ffreestanding -nostdlib -static -fno-pie -no-pie -Wl,-Ttext=0x100000,--build-id=none -s $< -o $@
