use super::*;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("armillary-files-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir(&path).unwrap();
    path
}

fn refusal(path: &Path) -> String {
    open(path).expect_err("it is refused").to_string()
}

#[test]
fn only_plain_files_are_opened() {
    let folder = folder("kinds");
    let [pipe, socket, link] = ["pipe", "socket", "link"].map(|name| folder.join(name));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let _listener = UnixListener::bind(&socket).unwrap();
    symlink("/dev/zero", &link).unwrap();
    assert_eq!(refusal(&folder), "it is a directory");
    // No process writes to it: an open that waits would never return.
    assert_eq!(refusal(&pipe), "it is a pipe, not a file");
    assert_eq!(refusal(&socket), "it is a socket, not a file");
    assert_eq!(refusal(&link), "it is a device, not a file");
    assert_eq!(refusal(Path::new("/dev/zero")), "it is a device, not a file");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_file_has_at_most_the_size_that_its_reader_allows() {
    let folder = folder("sizes");
    let file = folder.join("file");
    std::fs::write(&file, b"12345").unwrap();
    assert_eq!(read(&file, 5).unwrap(), b"12345");
    assert_eq!(read(&file, 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
    // A file of holes takes no space on the disk, but memory once it is read.
    File::create(&file).unwrap().set_len(MOST_TEXT + 1).unwrap();
    assert_eq!(read(&file, MOST_TEXT).unwrap_err().to_string(), "it is larger than 64 MiB");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn files_of_the_system_have_content_though_their_size_is_0() {
    assert!(read(Path::new("/proc/self/status"), MOST_TEXT).unwrap().starts_with(b"Name:"));
    assert!(read(Path::new("/proc/self/status"), 4).is_err());
}

#[test]
fn what_is_packed_unpacks_within_bounds() {
    let count = |packed| {
        std::io::copy(&mut unpacked(std::io::repeat(0).take(1 << 30), packed), &mut std::io::sink())
    };
    assert_eq!(count(6 << 20).unwrap(), 1 << 30);
    assert_eq!(count(1 << 20).unwrap_err().kind(), ErrorKind::FileTooLarge);
    let small =
        std::io::copy(&mut unpacked(std::io::repeat(0).take(MOST_TEXT), 1), &mut std::io::sink());
    assert_eq!(small.unwrap(), MOST_TEXT);
}
