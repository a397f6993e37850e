use std::fs;
use std::path::Path;

use super::{RULE, limited, scratch};

/// Returns what is printed of a folder with a rule that has a mistake, within 512 MiB.
fn printed_of_folder(scratch: &Path) -> (String, i32) {
    fs::write(scratch.join("rule.yaml"), RULE).unwrap();
    let output = limited(&["-R", "."]).current_dir(scratch).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("--> ./rule.yaml:6:13"), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    (stdout, output.status.code().unwrap())
}

#[test]
fn validate_of_gigabytes_checks_the_rest() {
    let scratch = scratch("gigabytes");
    // Without blocks on the disk.
    for (name, head) in [("object.yaml", "apiVersion: v1\n"), ("zeros.yaml", "")] {
        fs::write(scratch.join(name), head).unwrap();
        fs::OpenOptions::new().append(true).open(scratch.join(name)).unwrap().set_len(1 << 30).unwrap();
    }
    fs::write(scratch.join("image.yaml"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xfe").unwrap();
    let (stdout, code) = printed_of_folder(&scratch);
    assert!(stdout.contains("object.yaml\n"), "{stdout}");
    assert!(stdout.contains("larger than 16 MiB, the most that is read"), "{stdout}");
    assert!(stdout.contains("2 skipped that hold no Kubernetes object: ./image.yaml, ./zeros.yaml"), "{stdout}");
    assert_eq!(code, 2, "{stdout}");
}

#[test]
fn validate_of_100_000_files_checks_all() {
    let scratch = scratch("files");
    for folder in 0..100 {
        let folder = scratch.join(folder.to_string());
        fs::create_dir(&folder).unwrap();
        let first = folder.join("0.yaml");
        fs::write(&first, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n").unwrap();
        (1..1_000).for_each(|file| fs::hard_link(&first, folder.join(format!("{file}.yaml"))).unwrap());
    }
    let (stdout, code) = printed_of_folder(&scratch);
    assert!(stdout.ends_with("100,001 files, 1 rule: 1 error\n"), "{stdout}");
    assert_eq!(code, 1, "{stdout}");
    fs::remove_dir_all(&scratch).unwrap();
}

/// In quadratic time, this would not end.
#[test]
fn validate_of_many_names_and_repeated_keys_ends() {
    let names: String = (0..100_000).map(|name| format!("    requests.example.com/r{name}: 1\n")).collect();
    let quota = format!("apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: a}}\nspec:\n  hard:\n{names}");
    let item = "- {apiVersion: v1, kind: ConfigMap, data: {a: b, a: c}}\n";
    let list = format!("apiVersion: v1\nkind: List\nitems:\n{}", item.repeat(30_000));
    let scratch = scratch("names");
    fs::write(scratch.join("quota.yaml"), quota).unwrap();
    fs::write(scratch.join("list.yaml"), list).unwrap();
    let (stdout, code) = printed_of_folder(&scratch);
    assert!(stdout.contains("3 files, 1 rule: 1 error, 100,000 warnings"), "{}", &stdout[stdout.len() - 200..]);
    assert_eq!(code, 1);
}

#[test]
fn validate_of_cycles_of_links_checks_the_rest() {
    let scratch = scratch("cycles");
    fs::create_dir(scratch.join("a")).unwrap();
    for (target, link) in
        [("..", "a/up"), ("..", "a/up.yaml"), ("self.yaml", "self.yaml"), ("2.yaml", "1.yaml"), ("1.yaml", "2.yaml")]
    {
        std::os::unix::fs::symlink(target, scratch.join(link)).unwrap();
    }
    let (stdout, code) = printed_of_folder(&scratch);
    let cycles = stdout.matches("error[unreadable]: cannot read it: Too many levels of symbolic links").count();
    assert_eq!((cycles, code), (3, 2), "{stdout}");
}
