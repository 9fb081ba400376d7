//! The names of partition types. The numbers are public (UEFI, the Discoverable Partitions Specification, PC
//! tools). Types without a use in VMs are left out.

/// The name of a GPT type, given in lower case.
pub(crate) fn gpt(id: &str) -> Option<&'static str> {
    GPT.iter().find(|(known, _)| *known == id).map(|(_, name)| *name)
}

/// The name of an MBR type.
pub(crate) fn mbr(id: u8) -> Option<&'static str> {
    MBR.iter().find(|(known, _)| *known == id).map(|(_, name)| *name)
}

/// The type of an EFI system partition in a GPT.
pub(crate) const ESP: &str = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b";
/// The type of the partition in which GRUB keeps its core on a GPT disk.
pub(crate) const BIOS_BOOT: &str = "21686148-6449-6e6f-744e-656564454649";

#[rustfmt::skip]
const GPT: &[(&str, &str)] = &[
    ("c12a7328-f81f-11d2-ba4b-00a0c93ec93b", "EFI system"),
    ("21686148-6449-6e6f-744e-656564454649", "BIOS boot"),
    ("9e1a2d38-c612-4316-aa26-8b49521e5a8b", "PowerPC PReP boot"),
    ("e3c9e316-0b5c-4db8-817d-f92df00215ae", "Microsoft reserved"),
    ("ebd0a0a2-b9e5-4433-87c0-68b6b72699c7", "Microsoft basic data"),
    ("5808c8aa-7e8f-42e0-85d2-e1e90434cfb3", "Microsoft LDM metadata"),
    ("af9b60a0-1431-4f62-bc68-3311714a69ad", "Microsoft LDM data"),
    ("de94bba4-06d1-4d40-a16a-bfd50179d6ac", "Windows recovery"),
    ("e75caf8f-f680-4cee-afa3-b001e56efc2d", "Microsoft Storage Spaces"),
    ("0657fd6d-a4ab-43c4-84e5-0933c84b4f4f", "Linux swap"),
    ("0fc63daf-8483-4772-8e79-3d69d8477de4", "Linux filesystem"),
    ("3b8f8425-20e0-4f3b-907f-1a25a76f98e8", "Linux server data"),
    ("44479540-f297-41b2-9af7-d131d5f0458a", "Linux root (x86)"),
    ("4f68bce3-e8cd-4db1-96e7-fbcaf984b709", "Linux root (x86-64)"),
    ("69dad710-2ce4-4e3c-b16c-21a1d49abed3", "Linux root (ARM)"),
    ("b921b045-1df0-41c3-af44-4c6f280d3fae", "Linux root (arm64)"),
    ("77055800-792c-4f94-b39a-98c91b762bb6", "Linux root (LoongArch-64)"),
    ("c31c45e6-3f39-412e-80fb-4809c4980599", "Linux root (PPC64LE)"),
    ("72ec70a6-cf74-40e6-bd49-4bda08e8f224", "Linux root (RISC-V-64)"),
    ("5eead9a9-fe09-4a1e-a1d7-520d00531306", "Linux root (S390X)"),
    ("933ac7e1-2eb4-4f13-b844-0e14e2aef915", "Linux home"),
    ("a19d880f-05fc-4d3b-a006-743f0f84911e", "Linux RAID"),
    ("e6d6d379-f507-44c2-a23c-238f2a3df928", "Linux LVM"),
    ("4d21b016-b534-45c2-a9fb-5c16e091fd2d", "Linux variable data"),
    ("7ec6f557-3bc5-4aca-b293-16ef5df639d1", "Linux temporary data"),
    ("75250d76-8cc6-458e-bd66-bd47cc81a812", "Linux /usr (x86)"),
    ("8484680c-9521-48c6-9c11-b0720656f69e", "Linux /usr (x86-64)"),
    ("7d0359a3-02b3-4f0a-865c-654403e70625", "Linux /usr (ARM)"),
    ("b0e01050-ee5f-4390-949a-9101b17104e9", "Linux /usr (arm64)"),
    ("e611c702-575c-4cbe-9a46-434fa0bf7e3f", "Linux /usr (LoongArch-64)"),
    ("15bb03af-77e7-4d4a-b12b-c0d084f7491c", "Linux /usr (PPC64LE)"),
    ("beaec34b-8442-439b-a40b-984381ed097d", "Linux /usr (RISC-V-64)"),
    ("8a4f5770-50aa-4ed3-874a-99b710db6fea", "Linux /usr (S390X)"),
    ("d13c5d3b-b5d1-422a-b29f-9454fdc89d76", "Linux root verity (x86)"),
    ("2c7357ed-ebd2-46d9-aec1-23d437ec2bf5", "Linux root verity (x86-64)"),
    ("7386cdf2-203c-47a9-a498-f2ecce45a2d6", "Linux root verity (ARM)"),
    ("df3300ce-d69f-4c92-978c-9bfb0f38d820", "Linux root verity (arm64)"),
    ("f3393b22-e9af-4613-a948-9d3bfbd0c535", "Linux root verity (LoongArch-64)"),
    ("906bd944-4589-4aae-a4e4-dd983917446a", "Linux root verity (PPC64LE)"),
    ("b6ed5582-440b-4209-b8da-5ff7c419ea3d", "Linux root verity (RISC-V-64)"),
    ("b325bfbe-c7be-4ab8-8357-139e652d2f6b", "Linux root verity (S390X)"),
    ("8f461b0d-14ee-4e81-9aa9-049b6fb97abd", "Linux /usr verity (x86)"),
    ("77ff5f63-e7b6-4633-acf4-1565b864c0e6", "Linux /usr verity (x86-64)"),
    ("c215d751-7bcd-4649-be90-6627490a4c05", "Linux /usr verity (ARM)"),
    ("6e11a4e7-fbca-4ded-b9e9-e1a512bb664e", "Linux /usr verity (arm64)"),
    ("f46b2c26-59ae-48f0-9106-c50ed47f673d", "Linux /usr verity (LoongArch-64)"),
    ("ee2b9983-21e8-4153-86d9-b6901a54d1ce", "Linux /usr verity (PPC64LE)"),
    ("8f1056be-9b05-47c4-81d6-be53128e5b54", "Linux /usr verity (RISC-V-64)"),
    ("31741cc4-1a2a-4111-a581-e00b447d2d06", "Linux /usr verity (S390X)"),
    ("5996fc05-109c-48de-808b-23fa0830b676", "Linux root verity signature (x86)"),
    ("41092b05-9fc8-4523-994f-2def0408b176", "Linux root verity signature (x86-64)"),
    ("42b0455f-eb11-491d-98d3-56145ba9d037", "Linux root verity signature (ARM)"),
    ("6db69de6-29f4-4758-a7a5-962190f00ce3", "Linux root verity signature (arm64)"),
    ("5afb67eb-ecc8-4f85-ae8e-ac1e7c50e7d0", "Linux root verity signature (LoongArch-64)"),
    ("d4a236e7-e873-4c07-bf1d-bf6cf7f1c3c6", "Linux root verity signature (PPC64LE)"),
    ("efe0f087-ea8d-4469-821a-4c2a96a8386a", "Linux root verity signature (RISC-V-64)"),
    ("c80187a5-73a3-491a-901a-017c3fa953e9", "Linux root verity signature (S390X)"),
    ("974a71c0-de41-43c3-be5d-5c5ccd1ad2c0", "Linux /usr verity signature (x86)"),
    ("e7bb33fb-06cf-4e81-8273-e543b413e2e2", "Linux /usr verity signature (x86-64)"),
    ("d7ff812f-37d1-4902-a810-d76ba57b975a", "Linux /usr verity signature (ARM)"),
    ("c23ce4ff-44bd-4b00-b2d4-b41b3419e02a", "Linux /usr verity signature (arm64)"),
    ("b024f315-d330-444c-8461-44bbde524e99", "Linux /usr verity signature (LoongArch-64)"),
    ("c8bfbd1e-268e-4521-8bba-bf314c399557", "Linux /usr verity signature (PPC64LE)"),
    ("d2f9000a-7a18-453f-b5cd-4d32f77a7b32", "Linux /usr verity signature (RISC-V-64)"),
    ("3f324816-667b-46ae-86ee-9b0c0c6c11b4", "Linux /usr verity signature (S390X)"),
    ("bc13c2ff-59e6-4262-a352-b275fd6f7172", "Linux extended boot"),
    ("773f91ef-66d4-49b5-bd83-d683bf40ad16", "Linux user's home"),
    ("516e7cb4-6ecf-11d6-8ff8-00022d09712b", "FreeBSD data"),
    ("83bd6b9d-7f41-11dc-be0b-001560b84f0f", "FreeBSD boot"),
    ("516e7cb5-6ecf-11d6-8ff8-00022d09712b", "FreeBSD swap"),
    ("516e7cb6-6ecf-11d6-8ff8-00022d09712b", "FreeBSD UFS"),
    ("516e7cba-6ecf-11d6-8ff8-00022d09712b", "FreeBSD ZFS"),
    ("516e7cb8-6ecf-11d6-8ff8-00022d09712b", "FreeBSD Vinum"),
    ("48465300-0000-11aa-aa11-00306543ecac", "Apple HFS/HFS+"),
    ("7c3457ef-0000-11aa-aa11-00306543ecac", "Apple APFS"),
    ("426f6f74-0000-11aa-aa11-00306543ecac", "Apple boot"),
    ("53746f72-6167-11aa-aa11-00306543ecac", "Apple Core storage"),
    ("69646961-6700-11aa-aa11-00306543ecac", "Apple Silicon boot"),
    ("52637672-7900-11aa-aa11-00306543ecac", "Apple Silicon recovery"),
    ("6a82cb45-1dd2-11b2-99a6-080020736631", "Solaris boot"),
    ("6a85cf4d-1dd2-11b2-99a6-080020736631", "Solaris root"),
    ("6a898cc3-1dd2-11b2-99a6-080020736631", "Solaris /usr & Apple ZFS"),
    ("6a87c46f-1dd2-11b2-99a6-080020736631", "Solaris swap"),
    ("6a8b642b-1dd2-11b2-99a6-080020736631", "Solaris backup"),
    ("6a8ef2e9-1dd2-11b2-99a6-080020736631", "Solaris /var"),
    ("6a90ba39-1dd2-11b2-99a6-080020736631", "Solaris /home"),
    ("49f48d32-b10e-11dc-b99b-0019d1879648", "NetBSD swap"),
    ("49f48d5a-b10e-11dc-b99b-0019d1879648", "NetBSD FFS"),
    ("49f48d82-b10e-11dc-b99b-0019d1879648", "NetBSD LFS"),
    ("2db519c4-b10f-11dc-b99b-0019d1879648", "NetBSD concatenated"),
    ("2db519ec-b10f-11dc-b99b-0019d1879648", "NetBSD encrypted"),
    ("49f48daa-b10e-11dc-b99b-0019d1879648", "NetBSD RAID"),
    ("fe3a2a5d-4f32-41a7-b725-accc3285a309", "ChromeOS kernel"),
    ("3cb8e202-3b7e-47dd-8a3c-7ff2a13cfcec", "ChromeOS root fs"),
    ("2e0a753d-9e48-43b0-8337-b15192cb1b5e", "ChromeOS reserved"),
    ("aa31e02a-400f-11db-9590-000c2911d1b8", "VMware VMFS"),
    ("9d275380-40ad-11db-bf97-000c2911d1b8", "VMware Diagnostic"),
    ("381cfccc-7288-11e0-92ee-000c2911d0b2", "VMware Virtual SAN"),
    ("77719a0c-a4a0-11e3-a47e-000c29745a24", "VMware Virsto"),
    ("9198effc-31c0-11db-8f78-000c2911d1b8", "VMware Reserved"),
    ("824cc7a0-36a8-11e3-890a-952519ad3f61", "OpenBSD data"),
];

#[rustfmt::skip]
const MBR: &[(u8, &str)] = &[
    (0x01, "FAT12"),
    (0x04, "FAT16 up to 32 MiB"),
    (0x05, "extended"),
    (0x06, "FAT16"),
    (0x07, "NTFS, exFAT or HPFS"),
    (0x0b, "FAT32"),
    (0x0c, "FAT32 (LBA)"),
    (0x0e, "FAT16 (LBA)"),
    (0x0f, "extended (LBA)"),
    (0x11, "hidden FAT12"),
    (0x14, "hidden FAT16 up to 32 MiB"),
    (0x16, "hidden FAT16"),
    (0x17, "hidden NTFS, or an ISO image"),
    (0x1b, "hidden FAT32"),
    (0x1c, "hidden FAT32 (LBA)"),
    (0x1e, "hidden FAT16 (LBA)"),
    (0x27, "Windows recovery"),
    (0x39, "Plan 9"),
    (0x41, "PowerPC PReP boot"),
    (0x42, "Windows dynamic disk"),
    (0x63, "GNU Hurd or SysV"),
    (0x80, "old Minix"),
    (0x81, "Minix"),
    (0x82, "Linux swap"),
    (0x83, "Linux filesystem"),
    (0x85, "Linux extended"),
    (0x8e, "Linux LVM"),
    (0x96, "ISO 9660"),
    (0xa5, "FreeBSD"),
    (0xa6, "OpenBSD"),
    (0xa8, "Darwin UFS"),
    (0xa9, "NetBSD"),
    (0xaf, "Apple HFS/HFS+"),
    (0xbe, "Solaris boot"),
    (0xbf, "Solaris"),
    (0xcd, "ISO 9660 (xorriso)"),
    (0xda, "data without a filesystem"),
    (0xea, "Linux extended boot"),
    (0xeb, "BeOS"),
    (0xee, "GPT (protective)"),
    (0xef, "EFI system"),
    (0xf8, "EBBR protective"),
    (0xfb, "VMware VMFS"),
    (0xfc, "VMware core dump"),
    (0xfd, "Linux RAID"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_we_act_on_have_names() {
        assert_eq!(gpt(ESP), Some("EFI system"));
        assert_eq!(gpt(BIOS_BOOT), Some("BIOS boot"));
        assert_eq!(mbr(0x83), Some("Linux filesystem"));
        assert_eq!(mbr(0x00), None);
    }

    #[test]
    fn no_type_stands_twice() {
        let mut ids: Vec<&str> = GPT.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), GPT.len());
        assert!(MBR.windows(2).all(|w| w[0].0 < w[1].0));
    }
}
