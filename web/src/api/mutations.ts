/** What pages change on the control plane. Each answers when the server has made it durable. */
import { http, setCsrfToken, unwrap } from './client';
import type { LoginRequest, Repository, RunRequest, RuntimeToken, User, ValidateResponse } from './types';

export async function signIn(request: LoginRequest): Promise<User> {
  const user = await unwrap(http.POST('/api/auth/login', { body: request }));
  setCsrfToken(user.csrfToken);
  return user;
}

export async function signOut(): Promise<void> {
  await unwrap(http.POST('/api/auth/logout'));
  setCsrfToken(undefined);
}

/** By name or id. The session changes with it, and so does its token. */
export async function switchAccount(account: string): Promise<User> {
  const user = await unwrap(
    http.POST('/api/user/changeaccount/{account}', { params: { path: { account } } }),
  );
  setCsrfToken(user.csrfToken);
  return user;
}

/** Answers the new build's id. */
export function runPipeline(name: string, request: RunRequest): Promise<string> {
  return unwrap(http.POST('/api/pipelines/run/{name}', { params: { path: { name } }, body: request }));
}

/** Answers the new build's id. */
export function restartBuild(id: string): Promise<string> {
  return unwrap(http.GET('/api/builds/rebuild/{id}', { params: { path: { id } }, cache: 'no-store' }));
}

export async function terminateBuild(id: string): Promise<void> {
  await unwrap(http.DELETE('/api/progress/{id}', { params: { path: { id } } }));
}

export function validateYaml(yaml: string): Promise<ValidateResponse> {
  return unwrap(http.POST('/api/pipelines/yaml/validator', { body: { yaml, outputFormat: 'lint' } }));
}

/** `owner/name`, on the built-in Git host. */
export function createRepository(name: string): Promise<Repository> {
  return unwrap(http.POST('/api/repos', { body: { name } }));
}

/** Answers the token, which is shown once. */
export function createRuntime(name: string, ingressUrl: string): Promise<RuntimeToken> {
  return unwrap(http.POST('/api/runtimes', { body: { name, ingressUrl } }));
}

/** The old token stops working at once. */
export function renewRuntimeToken(name: string): Promise<RuntimeToken> {
  return unwrap(http.POST('/api/runtimes/{name}/token', { params: { path: { name } } }));
}

export function revokeRuntimeToken(name: string) {
  return unwrap(http.DELETE('/api/runtimes/{name}/token', { params: { path: { name } } }));
}

export function renameRuntime(name: string, to: string) {
  return unwrap(http.PATCH('/api/runtimes/{name}', { params: { path: { name } }, body: { name: to } }));
}

export function deleteRuntime(name: string) {
  return unwrap(http.DELETE('/api/runtimes/{name}', { params: { path: { name } } }));
}
