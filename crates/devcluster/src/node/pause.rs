//! The sandbox image: one tiny program that waits, so that a pod's network outlives its containers.
//!
//! There may be no registry to pull a pause image from, so it is made here: a static ELF file whose code is
//! `loop { pause() }`, some two hundred bytes.

pub(super) const IMAGE: &str = "localhost/slipway-pause:1";

/// An uncompressed tar archive with `/pause` in it.
pub(super) fn tree() -> Result<Vec<u8>, String> {
    let program = program().ok_or("the sandbox program exists for x86_64 and aarch64 only")?;
    let mut archive = tar_entry("pause", &program);
    archive.resize(archive.len() + 1024, 0);
    Ok(archive)
}

fn program() -> Option<Vec<u8>> {
    let (machine, code): (u16, &[u8]) = if cfg!(target_arch = "x86_64") {
        // mov eax, 34 (pause); syscall; jmp back
        (62, &[0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7])
    } else if cfg!(target_arch = "aarch64") {
        // mov x0..x3, 0; mov x8, 73 (ppoll); svc 0; b back
        (183, &[
            0x00, 0x00, 0x80, 0xd2, 0x01, 0x00, 0x80, 0xd2, 0x02, 0x00, 0x80, 0xd2, 0x03, 0x00, 0x80, 0xd2, 0x04, 0x00,
            0x80, 0xd2, 0x28, 0x09, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4, 0xf9, 0xff, 0xff, 0x17,
        ])
    } else {
        return None;
    };
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let size = HEADERS + code.len() as u64;
    let mut elf = Vec::new();
    elf.extend_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    elf.extend_from_slice(&2u16.to_le_bytes());
    elf.extend_from_slice(&machine.to_le_bytes());
    elf.extend_from_slice(&1u32.to_le_bytes());
    for word in [BASE + HEADERS, 64, 0] {
        elf.extend_from_slice(&word.to_le_bytes());
    }
    elf.extend_from_slice(&0u32.to_le_bytes());
    for half in [64u16, 56, 1, 64, 0, 0] {
        elf.extend_from_slice(&half.to_le_bytes());
    }
    // One segment: loadable, readable and executable.
    elf.extend_from_slice(&1u32.to_le_bytes());
    elf.extend_from_slice(&5u32.to_le_bytes());
    for word in [0, BASE, BASE, size, size, 0x1000] {
        elf.extend_from_slice(&word.to_le_bytes());
    }
    elf.extend_from_slice(code);
    Some(elf)
}

fn tar_entry(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = [0u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..108].copy_from_slice(b"0000755\0");
    header[108..116].copy_from_slice(b"0000000\0");
    header[116..124].copy_from_slice(b"0000000\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
    header[136..148].copy_from_slice(b"00000000000\0");
    header[148..156].copy_from_slice(b"        ");
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut entry = header.to_vec();
    entry.extend_from_slice(content);
    entry.resize(entry.len().div_ceil(512) * 512, 0);
    entry
}
