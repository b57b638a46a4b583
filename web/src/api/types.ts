/** Short names for the generated types of the HTTP contract. Nothing is declared here by hand. */
import type { components } from './generated/schema';

type Schemas = components['schemas'];

export type Application = Schemas['Application'];
export type ApplicationDiff = Schemas['ApplicationDiff'];
export type ApplicationPlan = Schemas['ApplicationPlan'];
export type Build = Schemas['Build'];
export type BuildStep = Schemas['BuildStep'];
export type Condition = Schemas['Condition'];
export type Deployment = Schemas['Deployment'];
export type GitTrigger = Schemas['GitTrigger'];
export type LogChunk = Schemas['LogChunk'];
export type LoginRequest = Schemas['LoginRequest'];
export type Operation = Schemas['Operation'];
export type Pipeline = Schemas['Pipeline'];
export type Repository = Schemas['Repository'];
export type ResourceDiff = Schemas['ResourceDiff'];
export type ResourceNode = Schemas['ResourceNode'];
export type Revision = Schemas['Revision'];
export type RunRequest = Schemas['RunRequest'];
export type Runner = Schemas['Runner'];
export type Runtime = Schemas['Runtime'];
export type SyncRequest = Schemas['SyncRequest'];
export type User = Schemas['User'];
export type ValidateResponse = Schemas['ValidateResponse'];
export type Variable = Schemas['Variable'];
