'use strict';
/**
 * Loaded before SillyTavern. Its standard input is a pipe that the tests hold and write nothing
 * to: when they are gone, in whatever way, it ends, and SillyTavern with it. Worker threads load
 * this as well, and have no input of their own.
 */
const { isMainThread } = require('node:worker_threads');

if (isMainThread) process.stdin.on('end', () => process.exit()).resume().unref();
