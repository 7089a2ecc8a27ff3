//! [`InMemory`]: a server without a listening socket.

use crate::app::App;
use crate::batch_runner;
use crate::body::Reply;
use crate::failure::{Error, ErrorKind};
use crate::listen::serve_stream;
use crate::log::Log;
use crate::model::Model;
use crate::options::ServerOptions;
use crate::routes::ROUTES;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Uri};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Time between two looks at the flag that ends a request.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A server without a listening socket, which answers requests of its own process: for batches of requests, for tests of
/// other crates, and for fuzzing. It does everything that [`serve`](crate::serve) does with a request or a connection.
pub struct InMemory {
    app: Arc<App>,
    runtime: Runtime,
}

impl fmt::Debug for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemory").finish_non_exhaustive()
    }
}

impl InMemory {
    /// Starts the engines of the models. Host, port and times of the end in `options` have no effect.
    ///
    /// # Errors
    /// There is no model, two have one name, or memory or threads are short.
    pub fn start(models: Vec<Model>, options: ServerOptions) -> Result<InMemory, Error> {
        let log = Log::new(options.log, Box::new(io::stderr())).map_err(ErrorKind::System)?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(ErrorKind::System)?;
        let app = App::start(models, options, log)?;
        // Its thread ends with the application.
        drop(batch_runner::start(&app, runtime.handle()));
        Ok(InMemory { app, runtime })
    }

    /// Returns method and path of each endpoint that takes a body.
    pub fn endpoints() -> impl Iterator<Item = (&'static str, &'static str)> {
        ROUTES.iter().filter(|route| route.has_body()).map(|route| (route.method.as_str(), route.path))
    }

    /// Returns the status and the whole body of the response to a request with a JSON body. May be called on many threads
    /// at the same time.
    ///
    /// # Panics
    /// `method` or `path` is invalid.
    pub fn answer(&self, method: &str, path: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
        self.runtime.block_on(self.response(method, path, body))
    }

    /// Answers like [`answer`](Self::answer) unless `stop` returns true meanwhile, which ends the request within a step.
    ///
    /// # Panics
    /// `method` or `path` is invalid.
    pub fn answer_unless(
        &self,
        stop: &dyn Fn() -> bool,
        method: &str,
        path: &str,
        body: Vec<u8>,
    ) -> Option<(u16, Vec<u8>)> {
        let stopped = async {
            while !stop() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        self.runtime.block_on(async {
            tokio::select! {
                response = self.response(method, path, body) => Some(response),
                () = stopped => None,
            }
        })
    }

    async fn response(&self, method: &str, path: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
        let mut request = Request::new(Reply::whole(body));
        *request.method_mut() = Method::from_bytes(method.as_bytes()).expect("a method");
        *request.uri_mut() = path.parse::<Uri>().expect("a path");
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let response = self.app.respond(request).await;
        let status = response.status().as_u16();
        (status, response.into_body().into_bytes().await)
    }

    /// Returns the bytes of the responses to a client that sends these bytes and then closes its side of the connection.
    ///
    /// # Errors
    /// The system has no descriptors or threads for the connection.
    pub fn exchange(&self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let (server, mut client) = UnixStream::pair()?;
        server.set_nonblocking(true)?;
        let mut to = client.try_clone()?;
        let app = Arc::clone(&self.app);
        self.runtime.spawn(async move {
            if let Ok(stream) = tokio::net::UnixStream::from_std(server) {
                serve_stream(app, stream).await;
            }
        });
        let mut responses = Vec::new();
        // On two threads, because the server may wait until its responses are read.
        thread::scope(|scope| {
            thread::Builder::new().spawn_scoped(scope, move || {
                // The server may close the connection before.
                let _ = to.write_all(bytes).and_then(|()| to.shutdown(Shutdown::Write));
            })?;
            match client.read_to_end(&mut responses) {
                Err(error) if error.kind() != io::ErrorKind::ConnectionReset => Err(error),
                _ => Ok(()),
            }
        })?;
        Ok(responses)
    }
}
