// The texts' keys and forms, of all modules.
import type en from './en';
import type account from './account';
import type audit from './audit';
import type alertform from './alertform';
import type alerts from './alerts';
import type captcha from './captcha';
import type deliveries from './deliveries';
import type drilldown from './drilldown';
import type journeys from './journeys';
import type imports from './import';
import type menu from './menu';
import type operator from './operator';
import type parts from './parts';
import type progress from './progress';
import type provider from './provider';
import type install from './install';
import type settings from './settings';
import type site from './site';
import type timeline from './timeline';
import type why from './why';
import type zip from './zip';

/** Message is a text, or its forms for one and for any other number. */
export type Message = string | { one: string; other: string };

/** TextKey is the key of a text, either built in or of a page that is loaded on demand. */
export type TextKey =
  | keyof typeof en
  | keyof typeof account
  | keyof typeof alertform
  | keyof typeof alerts
  | keyof typeof audit
  | keyof typeof captcha
  | keyof typeof deliveries
  | keyof typeof drilldown
  | keyof typeof imports
  | keyof typeof journeys
  | keyof typeof menu
  | keyof typeof operator
  | keyof typeof parts
  | keyof typeof progress
  | keyof typeof provider
  | keyof typeof install
  | keyof typeof settings
  | keyof typeof site
  | keyof typeof timeline
  | keyof typeof why
  | keyof typeof zip;
