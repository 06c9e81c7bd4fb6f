//! `floec keygen`, `floec sign`, `floec compile --sign` and `floec check --public-key`.

use crate::{Folder, models, run};
use floe_engine::plan::Plan;
use std::process::Command;

/// A folder with `plan.floe`, keys `mine` and `other`.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("conv.onnx", models::convolution());
    folder.run("compile conv.onnx --target host -o plan.floe").succeeded();
    for key in ["mine", "other"] {
        folder.run(&format!("keygen {key}")).succeeded();
    }
    folder
}

#[test]
fn what_is_signed_is_checked() {
    let folder = folder();
    folder.run("sign plan.floe --key mine -o signed.floe").succeeded();
    let said = folder.run("check signed.floe --public-key mine.pub").succeeded();
    assert_eq!(said, "signed.floe: signed with this key and sound, for host\n");
    assert_eq!(
        folder.run("check signed.floe").succeeded(),
        "signed.floe: sound, signed (--public-key checks by whom), for host\n"
    );
    assert!(folder.run("inspect signed.floe").succeeded().lines().next().unwrap().ends_with(" · signed"));
    let report: serde_json::Value = serde_json::from_str(&folder.run("inspect plan.floe --json").succeeded()).unwrap();
    assert_eq!(report["signed"], false);

    folder.refuses("check signed.floe --public-key other.pub", &["'signed.floe': ", "not signed with this key"]);
    folder.refuses("check plan.floe --public-key mine.pub", &["'plan.floe': ", "not signed; `floec sign`"]);
    let mut changed = folder.read("signed.floe");
    *changed.last_mut().unwrap() ^= 1;
    folder.write("changed.floe", &changed);
    folder.refuses("check changed.floe --public-key mine.pub", &["not signed with this key, or it or its signature"]);

    // Signing again, in place, replaces the signature; Ed25519 is deterministic.
    let first = folder.read("signed.floe");
    folder.run("sign signed.floe --key other -o signed.floe").succeeded();
    folder.run("check signed.floe --public-key other.pub").succeeded();
    folder.run("sign signed.floe --key mine -o signed.floe").succeeded();
    assert!(folder.read("signed.floe") == first);
    folder.run("compile conv.onnx --target host --sign mine -o compiled.floe").succeeded();
    assert!(folder.read("compiled.floe") == first, "compiling and signing is the same in one step");
    assert!(Plan::parse(&first).unwrap().is_signed());
}

#[test]
fn version_and_name_are_part_of_what_is_signed() {
    let folder = folder();
    let compile = "compile conv.onnx --target host --sign mine";
    folder.run(&format!("{compile} --plan-version 2 -o second.floe")).succeeded();
    folder.run(&format!("{compile} -o without.floe")).succeeded();
    let check = |plan: &str, asked: &str| format!("check {plan}.floe --public-key mine.pub {asked}");
    folder.run(&check("second", "--least-version 2 --model-name conv")).succeeded();
    folder.run(&check("without", "--least-version 0")).succeeded();
    let outdated = ["'second.floe', of model 'conv': plan is outdated", "version 2", "at least 3"];
    folder.refuses(&check("second", "--least-version 3"), &outdated);
    folder.refuses(&check("without", "--least-version 1"), &["version 0", "at least 1", "--plan-version"]);
    folder.refuses(&check("second", "--model-name gate"), &["of model 'conv': plan is of another model"]);
    assert!(folder.run("inspect second.floe").succeeded().starts_with("conv version 2 · "));
    assert!(folder.run("inspect without.floe").succeeded().starts_with("conv · "));
    let report: serde_json::Value =
        serde_json::from_str(&folder.run("inspect second.floe --json").succeeded()).unwrap();
    assert_eq!(report["version"], 2);

    // Without a key anybody may have written them.
    folder.misused("check second.floe --least-version 2", &["--public-key"]);
    folder.misused("check second.floe --model-name conv", &["--public-key"]);
    folder.misused("compile conv.onnx --target host --plan-version -1 -o x.floe", &["-1"]);
    folder.misused("compile conv.onnx --target host --plan-version 4294967296 -o x.floe", &["4294967296"]);
    // A plan with another version in it is no longer what was signed.
    let mut forged = folder.read("second.floe");
    forged[100] = 9;
    folder.write("forged.floe", &forged);
    folder.refuses(&check("forged", "--least-version 2"), &["SHA-256"]);
}

#[test]
fn keys_are_never_overwritten_and_only_the_owner_reads_the_private_one() {
    let folder = folder();
    folder.misused("keygen mine", &["'mine.pub' exists"]);
    std::fs::remove_file(folder.path("mine.pub")).unwrap();
    folder.misused("keygen mine", &["cannot make 'mine'", "exists"]);
    assert!(folder.read("mine") != folder.read("other"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |name| std::fs::metadata(folder.path(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("other"), mode("other.pub")), (0o600, 0o644));
    }
}

#[test]
fn files_that_are_no_keys_and_plans_that_are_damaged() {
    let folder = folder();
    for (key, word) in [("mine.pub", "private key"), ("plan.floe", "cannot read"), ("nothing", "No such file")] {
        folder.misused(&format!("sign plan.floe --key {key} -o signed.floe"), &[&format!("'{key}'"), word]);
        let compile = format!("compile conv.onnx --target host --sign {key} -o signed.floe");
        folder.misused(&compile, &[&format!("'{key}'"), word]);
    }
    folder.misused("check plan.floe --public-key mine", &["'mine' is no Ed25519 public key"]);
    let mut damaged = folder.read("plan.floe");
    // The first byte of the weights; the last one of the file is padding, which the check itself refuses.
    let front = u64::from_le_bytes(damaged[24..32].try_into().unwrap()) as usize;
    damaged[front] ^= 1;
    folder.write("damaged.floe", &damaged);
    folder.misused("sign damaged.floe --key mine -o signed.floe", &["cannot sign 'damaged.floe'", "SHA-256"]);
    folder.misused("sign conv.onnx --key mine -o signed.floe", &["'conv.onnx' is not a sound plan"]);
}

/// The commands of `engine/PLAN_FORMAT.md`, where there is an OpenSSL that knows Ed25519.
#[test]
fn openssl_makes_the_same_keys_and_signatures() {
    let folder = folder();
    let shell = |script: &str| run(Command::new("sh").args(["-euc", script]).current_dir(folder.path(".")));
    if shell("openssl genpkey -algorithm ed25519 -out plans.key").code != Some(0) {
        eprintln!("skipped: no OpenSSL with Ed25519");
        return;
    }
    let script = "openssl pkey -in plans.key -pubout -out plans.key.pub
        openssl pkey -in plans.key -pubout -outform DER -out plans.der
        (printf FLOESIGN; dd if=plan.floe bs=32 skip=1 count=1 status=none) >message
        openssl pkeyutl -sign -rawin -in message -inkey plans.key -out signature
        (cat plan.floe; printf FLOESIGN; cat signature) >by_hand.floe
        openssl pkey -in mine -pubout | cmp - mine.pub";
    let said = shell(script);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{}", said.stdout);
    folder.run("sign plan.floe --key plans.key -o signed.floe").succeeded();
    assert!(folder.read("signed.floe") == folder.read("by_hand.floe"));
    folder.run("check by_hand.floe --public-key plans.key.pub").succeeded();
    let key = floe_engine::plan::PublicKey::from_der(&folder.read("plans.der")).unwrap();
    Plan::parse(&folder.read("signed.floe")).unwrap().verify_signature(&key).unwrap();
}
