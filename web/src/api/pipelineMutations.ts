/** What the pages of projects, pipelines and builds change. Each answers when the server has made it durable. */
import { http, unwrap } from './client';
import type { Pipeline, ProjectChange, Tried, TryEvent } from './types';

export function createProject(projectName: string, tags: string[]) {
  return unwrap(http.POST('/api/projects', { body: { projectName, tags } }));
}

export function changeProject(id: string, body: ProjectChange) {
  return unwrap(http.PATCH('/api/projects/{id}', { params: { path: { id } }, body }));
}

export function deleteProject(id: string) {
  return unwrap(http.DELETE('/api/projects/{id}', { params: { path: { id } } }));
}

export function createPipeline(body: Pipeline): Promise<Pipeline> {
  return unwrap(http.POST('/api/pipelines', { body }));
}

/** Refused when somebody changed it meanwhile: its revision is the one that was read. */
export function replacePipeline(name: string, body: Pipeline): Promise<Pipeline> {
  return unwrap(http.PUT('/api/pipelines/{name}', { params: { path: { name } }, body }));
}

export function deletePipeline(name: string) {
  return unwrap(http.DELETE('/api/pipelines/{name}', { params: { path: { name } } }));
}

export function restoreRevision(name: string, revision: number): Promise<Pipeline> {
  return unwrap(
    http.POST('/api/pipelines/{name}/revisions/{revision}/restore', { params: { path: { name, revision } } }),
  );
}

export function tryTriggers(name: string, body: TryEvent): Promise<Tried[]> {
  return unwrap(http.POST('/api/pipelines/{name}/triggers/try', { params: { path: { name } }, body }));
}

export function answerApproval(id: string, answer: 'approve' | 'deny', step: string, reason: string) {
  return unwrap(
    http.POST('/api/builds/{id}/approvals', {
      params: { path: { id } },
      body: { answer, step, reason: reason.trim() || null },
    }),
  );
}

/** Answers the new build's id. Without a step it goes on from the first that failed. */
export function restartFrom(id: string, fromStep?: string): Promise<string> {
  return unwrap(
    http.POST('/api/builds/{id}/restart', {
      params: { path: { id } },
      body: { fromStep: fromStep ?? null, fromFailed: !fromStep, debug: false, breakpoints: {} },
    }),
  );
}
