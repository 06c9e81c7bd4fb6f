//! What is flushed to the disk, and when, as a library between the program and the system sees it.
#![cfg(target_os = "linux")]

use std::{
    env, fs,
    path::PathBuf,
    process::{Command, Stdio},
};

/// Writes the path of every file that is flushed, and whether the file of `$PLACE` is there by then, to `$LOG`.
const SPY: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int fsync(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    FILE *log = fopen(getenv("LOG"), "a");
    fprintf(log, "%d %.*s\n", access(getenv("PLACE"), F_OK) == 0, (int)length, path);
    fclose(log);
    return syscall(SYS_fsync, file);
}
"#;

#[test]
fn the_file_is_flushed_before_the_rename_and_its_folder_after_it() {
    if let Some(place) = env::var_os("PLACE") {
        return floe_files::write(&PathBuf::from(place), "plan").unwrap();
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    fs::write(path("spy.c"), SPY).unwrap();
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([path("spy.so"), path("spy.c")]).status();
    match compiled {
        Ok(status) => assert!(status.success()),
        Err(error) if env::var_os("CI").is_none() => return eprintln!("skipped, no C compiler: {error}"),
        Err(error) => panic!("{error}"),
    }
    fs::create_dir(path("plans")).unwrap();
    let status = Command::new(env::current_exe().unwrap())
        .env("LD_PRELOAD", path("spy.so"))
        .env("PLACE", path("plans/new.floe"))
        .env("LOG", path("log"))
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    let folder = path("plans").canonicalize().unwrap().display().to_string();
    let log = fs::read_to_string(path("log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines[0].starts_with(&format!("0 {folder}/.floe-")), "{log}");
    assert_eq!(lines[1], format!("1 {folder}"));
}
