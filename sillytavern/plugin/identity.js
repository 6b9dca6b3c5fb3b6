'use strict';
/**
 * The user of a request, from SillyTavern's login. The profile also contains the password's hash, so
 * only the handle and the admin flag leave this module.
 */

const { Refusal } = require('./refusals');

const HANDLE = /^[a-z0-9_-]{1,64}$/;

/** @typedef {{handle: string, admin: boolean}} Person */

/** The only user of a SillyTavern without accounts; the data directory itself holds this user's data. */
const OWNER = Object.freeze({ handle: 'default-user', admin: true });

/**
 * @param {any} req
 * @returns {Person}
 */
function identify(req) {
    const profile = req.user?.profile;
    const handle = profile?.handle;
    // If in doubt, refuse: a wrong user would see another user's data.
    if (typeof handle !== 'string' || !HANDLE.test(handle)) {
        throw new Refusal(403, 'login_required', 'SillyTavern does not name the user of this request.', 'Log in to SillyTavern and try again.');
    }
    return { handle, admin: profile.admin === true };
}

module.exports = { OWNER, identify };
