// The browser script of the analytics service. It adds one global function and stores nothing on
// the device.
import { guard } from './guard';
import { install } from './install';

guard(install)();
