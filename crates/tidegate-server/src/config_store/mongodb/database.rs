//! The collection: opened by the first call, with a deadline for each command.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind, WriteFailure};
use mongodb::options::{
    Acknowledgment, ClientOptions, CollectionOptions, IndexOptions, ReadConcern, ReadPreference,
    SelectionCriteria, WriteConcern,
};
use mongodb::{Client, Collection, IndexModel};
use tidegate::config::{ConfigStoreError, ConfigWrite};
use tokio::sync::OnceCell;

use super::document::{DELETED, FIRST_VERSION, ID, KEY, of_write};
use super::error::{DUPLICATE_KEY, call_error, timed_out};
use super::url::MongoUrl;

/// The name of the collection in the database.
const COLLECTION: &str = "tidegate_config";
/// The index on key and version. It contains all that a sweep reads.
const INDEX: &str = "tidegate_by_key";
/// How the server's list of connections names this program, if the URL gives no name.
const APP_NAME: &str = "tidegate";
/// The most connections, if the URL sets no other maximum.
const CONNECTIONS_MAX: u32 = 32;

/// The collection on a server that may be away.
pub(super) struct Database {
    url: MongoUrl,
    timeout: Duration,
    collection: OnceCell<Collection<Document>>,
    /// Whether the index and the first document exist, as far as this node knows.
    is_prepared: AtomicBool,
}

impl Database {
    pub fn new(url: MongoUrl, timeout: Duration) -> Self {
        Self { url, timeout, collection: OnceCell::new(), is_prepared: AtomicBool::new(false) }
    }

    /// Waits for a command until the deadline.
    pub async fn call<T>(
        &self,
        command: impl IntoFuture<Output = Result<T, Error>>,
    ) -> Result<T, ConfigStoreError> {
        self.deadline(command).await?.map_err(|error| call_error(&error))
    }

    /// The same, with the error of the driver.
    pub async fn deadline<T>(
        &self,
        command: impl IntoFuture<Output = Result<T, Error>>,
    ) -> Result<Result<T, Error>, ConfigStoreError> {
        let command = tokio::time::timeout(self.timeout, command.into_future());
        command.await.map_err(|_| timed_out(self.timeout))
    }

    /// The collection, with its index and its first document.
    pub async fn collection(
        &self,
        first: impl FnOnce() -> ConfigWrite,
    ) -> Result<&Collection<Document>, ConfigStoreError> {
        let collection = self.collection.get_or_try_init(|| self.open()).await?;
        if !self.is_prepared.load(Ordering::Relaxed) {
            self.prepare(collection, &first()).await?;
            self.is_prepared.store(true, Ordering::Relaxed);
        }
        Ok(collection)
    }

    /// The collection turned out to be gone. The next call creates it again.
    pub fn forget_prepared(&self) {
        self.is_prepared.store(false, Ordering::Relaxed);
    }

    /// Does not connect yet: the driver connects for the first command.
    async fn open(&self) -> Result<Collection<Document>, ConfigStoreError> {
        let mut options = self.call(ClientOptions::parse(self.url.connection.clone())).await?;
        options.app_name.get_or_insert_with(|| APP_NAME.to_owned());
        options.max_pool_size.get_or_insert(CONNECTIONS_MAX);
        // The driver's own limits are longer than the deadline of a command.
        options.connect_timeout = Some(self.timeout);
        options.server_selection_timeout = Some(self.timeout);
        let client = Client::with_options(options).map_err(|error| call_error(&error))?;
        let mut write_concern = WriteConcern::majority();
        (write_concern.journal, write_concern.w_timeout) = (Some(true), Some(self.timeout));
        debug_assert_eq!(write_concern.w, Some(Acknowledgment::Majority));
        let options = CollectionOptions::builder()
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .read_concern(ReadConcern::majority())
            .write_concern(write_concern)
            .build();
        Ok(client.database(&self.url.database).collection_with_options(COLLECTION, options))
    }

    async fn prepare(
        &self,
        collection: &Collection<Document>,
        first: &ConfigWrite,
    ) -> Result<(), ConfigStoreError> {
        let index = IndexModel::builder()
            .keys(doc! { KEY: 1, ID: 1, DELETED: 1 })
            .options(IndexOptions::builder().name(INDEX.to_owned()).build())
            .build();
        self.call(collection.create_index(index)).await?;
        let first = of_write(FIRST_VERSION, first);
        match self.deadline(collection.insert_one(first)).await? {
            Err(error) if !is_duplicate(&error) => Err(call_error(&error)),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

fn is_duplicate(error: &Error) -> bool {
    matches!(&*error.kind, ErrorKind::Write(WriteFailure::WriteError(error)) if error.code == DUPLICATE_KEY)
}
