'use strict';
/**
 * Who is asking, as SillyTavern's log-in says. The profile also holds the password's hash: the
 * handle and one flag are all that leaves this file.
 */

const { Refusal } = require('./refusals');

const HANDLE = /^[a-z0-9_-]{1,64}$/;

/** @typedef {{handle: string, admin: boolean}} Person */

/** The one user of a SillyTavern without accounts, whose data the data directory itself is. */
const OWNER = Object.freeze({ handle: 'default-user', admin: true });

/**
 * @param {any} req
 * @returns {Person}
 */
function identify(req) {
    const profile = req.user?.profile;
    const handle = profile?.handle;
    // Never somebody else in doubt.
    if (typeof handle !== 'string' || !HANDLE.test(handle)) {
        throw new Refusal(403, 'login_required', 'SillyTavern does not say who is asking.', 'Log in to SillyTavern and try again.');
    }
    return { handle, admin: profile.admin === true };
}

module.exports = { OWNER, identify };
