/** Short names for the generated types of the HTTP contract. Nothing is declared here by hand. */
import type { components as AppProxy } from './generated/app-proxy';
import type { components } from './generated/slipway';

type Schemas = components['schemas'];
type ProxySchemas = AppProxy['schemas'];

export type Application = Schemas['Application'];
export type ApplicationDiff = ProxySchemas['ApplicationDiff'];
export type ApplicationPlan = ProxySchemas['ApplicationPlan'];
export type Build = Schemas['Build'];
export type BuildStep = Schemas['BuildStep'];
export type Condition = Schemas['Condition'];
export type Deployment = Schemas['Deployment'];
export type Done = ProxySchemas['Done'];
export type GitTrigger = Schemas['GitTrigger'];
export type LogChunk = Schemas['LogChunk'];
export type LoginRequest = Schemas['LoginRequest'];
export type Operation = Schemas['Operation'];
export type Pipeline = Schemas['Pipeline'];
export type Repository = Schemas['Repository'];
export type ResourceDiff = ProxySchemas['ResourceDiff'];
export type ResourceNode = Schemas['ResourceNode'];
export type Revision = Schemas['Revision'];
export type RunRequest = Schemas['RunRequest'];
export type Runner = Schemas['Runner'];
export type Runtime = Schemas['Runtime'];
export type SyncRequest = ProxySchemas['SyncRequest'];
export type User = Schemas['User'];
export type ValidateResponse = Schemas['ValidateResponse'];
export type Variable = Schemas['Variable'];
