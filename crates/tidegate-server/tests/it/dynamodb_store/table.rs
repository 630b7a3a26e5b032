//! Tables that are missing or are not as they must be.

use serde_json::json;
use tidegate::config::{ConfigStore as _, ConfigStoreError};
use tidegate_testing::config_store::put;

use super::local::DynamoLocal;
use super::{new_table, open};

#[tokio::test]
async fn a_missing_table_is_an_error_with_the_command_that_creates_it() {
    let (server, table) = (DynamoLocal::shared(), new_table());
    let store = open(&server.url(&table).replace("&create=true", ""));
    for error in [
        store.get("a").await.expect_err("there is no table"),
        store.write(&[put("a", b"x")]).await.expect_err("there is no table"),
        store.latest().await.expect_err("there is no table"),
    ] {
        assert!(matches!(error, ConfigStoreError::Broken(_)), "{error}");
        let command = format!("aws dynamodb create-table --region eu-central-1 --table-name {table} ");
        assert!(error.to_string().contains(&command), "{error}");
    }
}

#[tokio::test]
async fn a_table_with_other_keys_is_an_error() {
    let (server, table) = (DynamoLocal::shared(), new_table());
    server.call(
        "CreateTable",
        &json!({
            "TableName": table,
            "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [{ "AttributeName": "id", "KeyType": "HASH" }],
            "AttributeDefinitions": [{ "AttributeName": "id", "AttributeType": "S" }],
        }),
    );
    let store = open(&server.url(&table));
    for error in [
        store.get("a").await.expect_err("it has other keys"),
        store.write(&[put("a", b"x")]).await.expect_err("it has other keys"),
        store.latest().await.expect_err("it has other keys"),
    ] {
        assert!(matches!(error, ConfigStoreError::Broken(_)), "{error}");
        assert!(error.to_string().contains("must be the strings `pk` and `sk`"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_created_deletes_old_log_entries() {
    let (server, table) = (DynamoLocal::shared(), new_table());
    // Two nodes start at the same time.
    let (one, other) = (open(&server.url(&table)), open(&server.url(&table)));
    let (one, other) = tokio::join!(one.latest(), other.latest());
    assert_eq!((one.map(|v| v.get()), other.map(|v| v.get())), (Ok(0), Ok(0)));
    let described = server.call("DescribeTimeToLive", &json!({ "TableName": table }));
    let expiry = &described["TimeToLiveDescription"];
    assert_eq!((&expiry["TimeToLiveStatus"], &expiry["AttributeName"]), (&json!("ENABLED"), &json!("exp")));
}
