//! `HELLO` and `AUTH`: protocol version and authentication.

use super::client::{BAD_NAME, is_valid_name};
use super::throttle::parse_integer;
use super::{CommandContext, CommandStep, DeferredReply, StoreAccess};
use crate::serve::Protocol;
use crate::serve::resp::RespSecrets;
use crate::serve::resp::parse::{Arguments, AuthState};
use crate::serve::resp::reply::{Replies, RespVersion};
use crate::serve::resp::session::User;

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// The options of `HELLO`.
#[derive(Default)]
struct HelloOptions<'a> {
    version: Option<RespVersion>,
    login: Option<Login<'a>>,
    name: Option<&'a [u8]>,
}

struct Login<'a> {
    user: &'a [u8],
    password: &'a [u8],
}

/// `AUTH password`, `AUTH default password`, `AUTH admin token`.
pub(super) fn auth<'s>(arguments: &Arguments<'_>, context: &mut CommandContext<'s, '_>) -> CommandStep<'s> {
    let login = match (arguments.get(1), arguments.get(2), arguments.len()) {
        (Some(_), None, _) if context.shared.secrets.password.is_none() => {
            context.replies.error(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            );
            return CommandStep::Continue;
        }
        (Some(password), None, _) => Login { user: User::Default.as_str().as_bytes(), password },
        (Some(user), Some(password), 3) => Login { user, password },
        _ => {
            context.replies.error("ERR syntax error");
            return CommandStep::Continue;
        }
    };
    match login.user(context) {
        Some(user) => {
            context.session.authenticate(user);
            context.replies.simple_string("OK");
            CommandStep::Continue
        }
        None => failed_login(context),
    }
}

/// `HELLO [2|3 [AUTH user password] [SETNAME name]]`.
pub(super) fn hello<'s>(arguments: &Arguments<'_>, context: &mut CommandContext<'s, '_>) -> CommandStep<'s> {
    let options = match parse_options(arguments) {
        Ok(options) => options,
        Err(error) => {
            context.replies.error(error);
            return CommandStep::Continue;
        }
    };
    if let Some(login) = &options.login {
        let Some(user) = login.user(context) else { return failed_login(context) };
        context.session.authenticate(user);
    }
    greet(&options, context);
    CommandStep::Continue
}

/// Applies the options of `HELLO` after its login.
fn greet(options: &HelloOptions<'_>, context: &mut CommandContext<'_, '_>) {
    if context.session.auth == AuthState::Unauthenticated {
        return context.replies.error(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the \
             same time",
        );
    }
    if let Some(name) = options.name {
        if !is_valid_name(name) {
            return context.replies.error(BAD_NAME);
        }
        context.session.name = name.to_vec();
    }
    if let Some(version) = options.version {
        context.replies.set_version(version);
    }
    write_server_info(context);
}

/// Answers a wrong login, later. The next login of the connection waits for this answer.
#[cold]
fn failed_login<'s>(context: &mut CommandContext<'s, '_>) -> CommandStep<'s> {
    let delay = context.shared.app.failed_login(Protocol::Resp);
    let mut replies = Replies::new(context.replies.version());
    replies.error(WRONG_PASSWORD);
    let reply = Box::pin(async move {
        delay.await;
        replies
    });
    CommandStep::Later(DeferredReply { access: StoreAccess::Write, reply, bytes: 0 })
}

fn parse_options<'a>(arguments: &Arguments<'a>) -> Result<HelloOptions<'a>, String> {
    let mut options = HelloOptions::default();
    let Some(version) = arguments.get(1) else { return Ok(options) };
    options.version = Some(match parse_integer(version) {
        Some(2) => RespVersion::Resp2,
        Some(3) => RespVersion::Resp3,
        Some(_) => return Err("NOPROTO unsupported protocol version".to_owned()),
        None => return Err("ERR Protocol version is not an integer or out of range".to_owned()),
    });
    let mut index = 2;
    while let Some(option) = arguments.get(index) {
        let values = (arguments.get(index + 1), arguments.get(index + 2));
        if option.eq_ignore_ascii_case(b"AUTH")
            && let (Some(user), Some(password)) = values
        {
            options.login = Some(Login { user, password });
            index += 3;
        } else if option.eq_ignore_ascii_case(b"SETNAME")
            && let (Some(name), _) = values
        {
            options.name = Some(name);
            index += 2;
        } else {
            return Err(format!("ERR Syntax error in HELLO option '{}'", super::shortened(option)));
        }
    }
    Ok(options)
}

fn write_server_info(context: &mut CommandContext<'_, '_>) {
    let (id, replies) = (context.session.id, &mut *context.replies);
    replies.start_map(7);
    replies.bulk(b"server");
    replies.bulk(b"tidegate");
    replies.bulk(b"version");
    replies.bulk(env!("CARGO_PKG_VERSION").as_bytes());
    replies.bulk(b"proto");
    replies.integer(match replies.version() {
        RespVersion::Resp2 => 2,
        RespVersion::Resp3 => 3,
    });
    replies.bulk(b"id");
    replies.integer(i64::try_from(id).unwrap_or(i64::MAX));
    replies.bulk(b"mode");
    replies.bulk(b"standalone");
    replies.bulk(b"role");
    replies.bulk(b"master");
    replies.bulk(b"modules");
    replies.start_array(0);
}

impl Login<'_> {
    /// The user, if the password is right. Without a password, every login as the default user is.
    fn user(&self, context: &CommandContext<'_, '_>) -> Option<User> {
        let RespSecrets { password, admin_token } = &context.shared.secrets;
        let user =
            [User::Default, User::Admin].into_iter().find(|user| user.as_str().as_bytes() == self.user)?;
        let is_valid = match user {
            User::Default => password.as_ref().is_none_or(|password| password.matches(self.password)),
            User::Admin => admin_token.as_ref().is_some_and(|token| token.matches(self.password)),
        };
        is_valid.then_some(user)
    }
}
