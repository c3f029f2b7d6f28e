//! The objects, some of which may not be deleted.

use std::sync::Arc;

use aedile_clock::SharedClock;
use async_trait::async_trait;
use s3s::dto::{
    BucketVersioningStatus, DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput,
    DeleteObjectsOutput, Error, GetBucketVersioningInput, GetBucketVersioningOutput,
    GetObjectInput, GetObjectLockConfigurationInput, GetObjectLockConfigurationOutput,
    GetObjectOutput, HeadBucketInput, HeadBucketOutput, HeadObjectInput, HeadObjectOutput,
    ListObjectsV2Input, ListObjectsV2Output, ObjectLockConfiguration, ObjectLockEnabled,
    PutObjectInput, PutObjectOutput,
};
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use s3s_fs::FileSystem;

use super::Faults;

pub(super) struct Objects {
    files: FileSystem,
    faults: Arc<Faults>,
    clock: SharedClock,
}

impl Objects {
    pub(super) fn new(files: FileSystem, faults: Arc<Faults>, clock: SharedClock) -> Self {
        Self {
            files,
            faults,
            clock,
        }
    }
}

#[async_trait]
impl S3 for Objects {
    async fn delete_objects(
        &self,
        mut request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let objects = &mut request.input.delete.objects;
        self.faults.note_bulk(objects.len());
        self.faults
            .note_asked(objects.iter().map(|object| &object.key));
        if self.faults.is_too_long(objects.len()) {
            return Err(s3_error!(MalformedXML, "too many keys"));
        }
        if !self.faults.grants(objects.len(), self.clock.boot()) {
            return Err(s3_error!(SlowDown, "Please reduce your request rate."));
        }
        if objects
            .iter()
            .any(|object| self.faults.is_poison(&object.key))
        {
            return Err(s3_error!(AccessDenied, "one of them may not go"));
        }
        let mut errors = Vec::new();
        objects.retain(|object| {
            let denied = self.faults.denied(&object.key);
            if let Some(code) = denied {
                errors.push(Error {
                    key: Some(object.key.clone()),
                    code: Some(code.to_owned()),
                    message: Some("Access Denied because of object lock".to_owned()),
                    ..Error::default()
                });
            }
            denied.is_none()
        });
        let mut response = self.files.delete_objects(request).await?;
        response.output.errors = (!errors.is_empty()).then_some(errors);
        Ok(response)
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.faults.note_asked(std::iter::once(&request.input.key));
        if !self.faults.grants(1, self.clock.boot()) {
            return Err(s3_error!(SlowDown, "Please reduce your request rate."));
        }
        if let Some(code) = self.faults.denied(&request.input.key) {
            let code =
                S3ErrorCode::from_bytes(code.as_bytes()).unwrap_or(S3ErrorCode::InternalError);
            return Err(S3Error::with_message(
                code,
                "Access Denied because of object lock",
            ));
        }
        self.files.delete_object(request).await
    }

    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        self.files.get_object(request).await
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        self.files.head_object(request).await
    }

    async fn get_bucket_versioning(
        &self,
        _: S3Request<GetBucketVersioningInput>,
    ) -> S3Result<S3Response<GetBucketVersioningOutput>> {
        let status = self.faults.versioning();
        Ok(S3Response::new(GetBucketVersioningOutput {
            status: status.map(BucketVersioningStatus::from_static),
            ..GetBucketVersioningOutput::default()
        }))
    }

    async fn get_object_lock_configuration(
        &self,
        _: S3Request<GetObjectLockConfigurationInput>,
    ) -> S3Result<S3Response<GetObjectLockConfigurationOutput>> {
        if !self.faults.object_lock() {
            return Err(s3_error!(
                ObjectLockConfigurationNotFoundError,
                "the bucket has none"
            ));
        }
        Ok(S3Response::new(GetObjectLockConfigurationOutput {
            object_lock_configuration: Some(ObjectLockConfiguration {
                object_lock_enabled: Some(ObjectLockEnabled::from_static("Enabled")),
                rule: None,
            }),
        }))
    }

    async fn head_bucket(
        &self,
        request: S3Request<HeadBucketInput>,
    ) -> S3Result<S3Response<HeadBucketOutput>> {
        self.files.head_bucket(request).await
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        self.files.list_objects_v2(request).await
    }

    async fn put_object(
        &self,
        request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        self.files.put_object(request).await
    }
}
