//! Server reflection.

use prost::Message as _;
use prost_types::FileDescriptorProto;
use tokio_stream::StreamExt as _;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ExtensionRequest, ServerReflectionRequest};
use tonic_reflection::pb::v1alpha;

use crate::grpc::server::Server;

const RULES: &str = "domain: api\nrules: []";
const RLS: &str = "envoy.service.ratelimit.v3.RateLimitService";

fn names(files: &[Vec<u8>]) -> Vec<String> {
    files.iter().map(|file| FileDescriptorProto::decode(&file[..]).unwrap().name().to_owned()).collect()
}

#[tokio::test]
async fn every_request_type() {
    let server = Server::with_rules(RULES).await;
    let mut client = ServerReflectionClient::new(server.channel().await);
    let extension = ExtensionRequest { containing_type: "x".to_owned(), extension_number: 1 };
    let questions = [
        Some(MessageRequest::ListServices("*".to_owned())),
        Some(MessageRequest::FileContainingSymbol(RLS.to_owned())),
        Some(MessageRequest::FileByFilename("google/protobuf/struct.proto".to_owned())),
        Some(MessageRequest::FileContainingSymbol("nope".to_owned())),
        Some(MessageRequest::FileByFilename("nope.proto".to_owned())),
        Some(MessageRequest::FileContainingExtension(extension)),
        Some(MessageRequest::AllExtensionNumbersOfType("x".to_owned())),
        None,
    ];
    let requests =
        questions.map(|message_request| ServerReflectionRequest { host: "h".to_owned(), message_request });
    let answers =
        client.server_reflection_info(tokio_stream::iter(requests.clone())).await.unwrap().into_inner();
    let answers: Vec<_> = answers.map(|answer| answer.unwrap()).collect().await;
    assert_eq!(answers.len(), requests.len());
    for (answer, request) in answers.iter().zip(&requests) {
        assert_eq!(answer.original_request.as_ref(), Some(request));
    }
    let mut answers = answers.into_iter().map(|answer| answer.message_response.unwrap());
    let Some(MessageResponse::ListServicesResponse(list)) = answers.next() else { panic!() };
    let services: Vec<_> = list.service.iter().map(|service| &*service.name).collect();
    assert!(services.contains(&RLS) && services.len() == 4, "{services:?}");
    let Some(MessageResponse::FileDescriptorResponse(files)) = answers.next() else { panic!() };
    let files = names(&files.file_descriptor_proto);
    assert_eq!(files[0], "envoy/service/ratelimit/v3/rls.proto");
    assert_eq!(files.len(), 8, "{files:?}");
    let Some(MessageResponse::FileDescriptorResponse(files)) = answers.next() else { panic!() };
    assert_eq!(names(&files.file_descriptor_proto), ["google/protobuf/struct.proto"]);
    let codes = answers.map(|answer| match answer {
        MessageResponse::ErrorResponse(error) => error.error_code,
        other => panic!("{other:?}"),
    });
    assert_eq!(codes.collect::<Vec<_>>(), [5, 5, 5, 5, 3]);
}

#[tokio::test]
async fn v1alpha_and_many_requests_on_one_stream() {
    let server = Server::with_rules(RULES).await;
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(server.channel().await);
    let message_request =
        v1alpha::server_reflection_request::MessageRequest::FileContainingSymbol(RLS.to_owned());
    let requests =
        v1alpha::ServerReflectionRequest { host: String::new(), message_request: Some(message_request) };
    // All responses together exceed the client's flow control window.
    let requests = std::iter::repeat_n(requests, 100);
    let answers = client.server_reflection_info(tokio_stream::iter(requests)).await.unwrap().into_inner();
    assert_eq!(answers.fold(0, |count, answer| count + usize::from(answer.is_ok())).await, 100);
}
