'use strict';
/**
 * The entry of the SillyTavern server plugin. See README.md.
 */

const { Bridge } = require('./bridge');

const info = {
    id: 'valuetracker',
    name: 'Value Tracker',
    description: 'Keeps the state of extensions: runs the Value Tracker server and forwards to it.',
};

const bridge = new Bridge(__dirname);

/** @param {{use: (handler: (req: any, res: any) => void) => void}} router Express's; mounted at `/api/plugins/valuetracker`. */
async function init(router) {
    router.use((req, res) => bridge.handle(req, res));
    await bridge.start();
}

async function exit() {
    await bridge.stop();
}

module.exports = { info, init, exit };
