//! The small disk on which cloud-init finds what it is told: a file system of ISO 9660 called
//! `cidata`, with names as Joliet has them.
//!
//! One folder with a few files. Every file is there once, and named twice: in capital letters for
//! readers that know ISO 9660 alone, and as it is called for all others. No program of the host is
//! needed to make one, and nothing is written but what is returned.

/// A sector.
const SECTOR: usize = 2048;
/// Where the volume descriptors are: after sixteen sectors that are for boot code.
const DESCRIPTORS: usize = 16;
/// Three descriptors, then two path tables for each of the two trees, then their folders.
const TABLES: usize = DESCRIPTORS + 3;
const FOLDERS: usize = TABLES + 4;
const FILES: usize = FOLDERS + 2;

/// One of the two trees.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tree {
    /// ISO 9660 itself.
    Plain,
    /// Joliet.
    Joliet,
}

/// An image called `label` with these files, in the order of their names.
pub(crate) fn image(label: &str, files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut starts = Vec::new();
    let mut next = FILES;
    for (_, content) in files {
        starts.push(next);
        next += sectors(content.len());
    }
    let mut image = vec![0; next * SECTOR];
    put(&mut image, DESCRIPTORS, &descriptor(Tree::Plain, label, next));
    put(&mut image, DESCRIPTORS + 1, &descriptor(Tree::Joliet, label, next));
    let mut end = vec![255];
    end.extend(b"CD001\x01");
    put(&mut image, DESCRIPTORS + 2, &end);
    for (index, tree) in [Tree::Plain, Tree::Joliet].into_iter().enumerate() {
        let folder = FOLDERS + index;
        put(
            &mut image,
            TABLES + 2 * index,
            &path_table(folder, u32::to_le_bytes, u16::to_le_bytes),
        );
        let big = path_table(folder, u32::to_be_bytes, u16::to_be_bytes);
        put(&mut image, TABLES + 2 * index + 1, &big);
        let mut records = record(&[0], folder, SECTOR, true);
        records.extend(record(&[1], folder, SECTOR, true));
        for ((name, content), start) in files.iter().zip(&starts) {
            records.extend(record(&tree.name(name), *start, content.len(), false));
        }
        put(&mut image, folder, &records);
    }
    for ((_, content), start) in files.iter().zip(&starts) {
        put(&mut image, *start, content);
    }
    image
}

/// The descriptor of a tree on a disk of so many sectors.
fn descriptor(tree: Tree, label: &str, size: usize) -> Vec<u8> {
    let mut bytes = vec![if tree == Tree::Plain { 1 } else { 2 }];
    bytes.extend(b"CD001\x01\0");
    bytes.extend(tree.text("", 32));
    bytes.extend(tree.text(label, 32));
    bytes.extend([0; 8]);
    bytes.extend(both_u32(size));
    let mut escapes = [0; 32];
    if tree == Tree::Joliet {
        // Two bytes for each character, the third level.
        escapes[..3].copy_from_slice(b"%/E");
    }
    bytes.extend(escapes);
    // One disk of one, with sectors of this size.
    bytes.extend([both_u16(1), both_u16(1), both_u16(SECTOR)].concat());
    bytes.extend(both_u32(10));
    let index = usize::from(tree == Tree::Joliet);
    bytes.extend(to_u32(TABLES + 2 * index).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(to_u32(TABLES + 2 * index + 1).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(record(&[0], FOLDERS + index, SECTOR, true));
    // Set, publisher, preparer and application, then three names of files.
    for length in [128, 128, 128, 128, 37, 37, 37] {
        bytes.extend(tree.text("", length));
    }
    // Four times without a value.
    for _ in 0..4 {
        bytes.extend([b'0'; 16]);
        bytes.push(0);
    }
    bytes.push(1);
    bytes
}

/// The table that leads to the one folder there is.
fn path_table(
    folder: usize,
    wide: impl Fn(u32) -> [u8; 4],
    narrow: impl Fn(u16) -> [u8; 2],
) -> Vec<u8> {
    let mut bytes = vec![1, 0];
    bytes.extend(wide(to_u32(folder)));
    bytes.extend(narrow(1));
    bytes.extend([0, 0]);
    bytes
}

/// An entry of a folder.
fn record(name: &[u8], start: usize, length: usize, folder: bool) -> Vec<u8> {
    let padded = 33 + name.len() + (name.len() + 1) % 2;
    let mut bytes = vec![u8::try_from(padded).unwrap_or(u8::MAX), 0];
    bytes.extend(both_u32(start));
    bytes.extend(both_u32(length));
    // The first of January 1970, at midnight in Greenwich.
    bytes.extend([70, 1, 1, 0, 0, 0, 0]);
    bytes.push(if folder { 2 } else { 0 });
    bytes.extend([0, 0]);
    bytes.extend(both_u16(1));
    bytes.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    bytes.extend(name);
    bytes.resize(padded, 0);
    bytes
}

impl Tree {
    /// The name of a file.
    fn name(self, name: &str) -> Vec<u8> {
        match self {
            Self::Plain => {
                let fits = |letter: char| letter.is_ascii_alphanumeric();
                let letters = name.chars().filter(|letter| fits(*letter)).take(8);
                let letters: String = letters.collect();
                format!("{}.;1", letters.to_ascii_uppercase()).into_bytes()
            }
            Self::Joliet => wide(&format!("{name};1")),
        }
    }

    /// A text of this many bytes.
    fn text(self, text: &str, length: usize) -> Vec<u8> {
        let (mut bytes, blank) = match self {
            Self::Plain => (text.as_bytes().to_vec(), vec![b' ']),
            Self::Joliet => (wide(text), vec![0, b' ']),
        };
        while bytes.len() < length {
            bytes.extend(&blank);
        }
        bytes.truncate(length);
        bytes
    }
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

fn put(image: &mut [u8], sector: usize, bytes: &[u8]) {
    image[sector * SECTOR..][..bytes.len()].copy_from_slice(bytes);
}

fn sectors(length: usize) -> usize {
    length.div_ceil(SECTOR)
}

/// A number in both orders of bytes.
fn both_u32(number: usize) -> Vec<u8> {
    let number = to_u32(number);
    [number.to_le_bytes(), number.to_be_bytes()].concat()
}

fn both_u16(number: usize) -> Vec<u8> {
    let number = u16::try_from(number).unwrap_or(u16::MAX);
    [number.to_le_bytes(), number.to_be_bytes()].concat()
}

/// Seeds are small, so every number fits.
fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_is_what_readers_expect() {
        let long = vec![b'x'; SECTOR + 1];
        let bytes = image("cidata", &[("meta-data", b"id: 1\n"), ("user-data", &long)]);
        assert_eq!(bytes.len(), (FILES + 1 + 2) * SECTOR);
        let at = |sector: usize| &bytes[sector * SECTOR..][..SECTOR];
        assert_eq!(&at(16)[..7], b"\x01CD001\x01");
        assert_eq!(&at(16)[40..47], b"cidata ");
        assert_eq!(&at(17)[..7], b"\x02CD001\x01");
        assert_eq!(&at(17)[40..52], b"\0c\0i\0d\0a\0t\0a");
        assert_eq!(&at(17)[88..91], b"%/E");
        assert_eq!(&at(18)[..7], b"\xffCD001\x01");
        // The root's record says where the folder is, at the same place in both descriptors.
        assert_eq!(at(16)[156 + 2], 23);
        assert_eq!(at(17)[156 + 2], 24);
        // The descriptor is as long as it must be: the version is its byte 881.
        assert_eq!(at(16)[881], 1);
        let folder = at(24);
        assert_eq!(folder[0], 34, "the folder itself");
        let file = &folder[68..];
        assert_eq!(&file[33..33 + 22], &wide("meta-data;1")[..]);
        assert_eq!(&at(usize::from(file[2]))[..6], b"id: 1\n");
        assert_eq!(&at(23)[68 + 33..][..11], b"METADATA.;1");
    }

    #[test]
    fn every_record_has_an_even_length() {
        for name in [&b"A"[..], b"AB", b"ABC.;1"] {
            let record = record(name, 1, 1, false);
            assert!(record.len().is_multiple_of(2));
            assert_eq!(usize::from(record[0]), record.len());
        }
    }
}
