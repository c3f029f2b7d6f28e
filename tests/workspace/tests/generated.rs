//! What is generated from the contract is what the contract gives.

use aedile_tests_workspace::{contract, files, read};

#[test]
fn what_is_generated_is_up_to_date() {
    let generated = contract::generated();
    for (path, bytes) in &generated {
        assert!(
            read(path) == *bytes,
            "{path} is not what wit/ gives: run `make generated`"
        );
    }
    for path in files(contract::C) {
        let known = generated.iter().any(|(generated, _)| *generated == path);
        assert!(known, "{path} is not generated any more: remove it");
    }
}

#[test]
fn every_item_of_the_contract_has_a_text_on_the_page() {
    let (page, bare) = contract::page();
    assert_eq!(bare, Vec::<String>::new(), "items without a text");
    for item in [
        "`kv-scan: func(",
        "`record report`",
        "`variant answer`",
        "`type object-id = u64`",
    ] {
        assert!(page.contains(item), "{item}");
    }
}
