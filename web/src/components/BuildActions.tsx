import { useDisclosure } from '@mantine/hooks';
import { notifications } from '@mantine/notifications';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { debugAgain } from '../api/debug';
import { restartBuild, terminateBuild } from '../api/mutations';
import { restartFrom } from '../api/pipelineMutations';
import type { Build } from '../api/types';
import { Action } from '../ui/Action';
import { Confirm } from '../ui/Confirm';
import { Refresh, Stop } from '../ui/icons';
import { sentence, toFailure } from '../ui/States';

/** Starts another build out of this one, and goes there. */
function useNext<Words = void>(start: (words: Words) => Promise<string>) {
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: start,
    onSuccess: async (id) => {
      void queryClient.invalidateQueries({ queryKey: ['builds', 'list'] });
      await navigate({ to: '/builds/$id', params: { id } });
    },
    onError: (error) =>
      notifications.show({
        color: 'red',
        title: 'Could not restart the build',
        message: sentence(toFailure(error).message),
      }),
  });
}

/** What may be done with a build; whether it may is the server's to say (`can`). */
export function BuildActions({ build }: { build: Build }) {
  const [asking, ask] = useDisclosure();
  const restart = useNext(() => restartBuild(build.id));
  const goOn = useNext((step: string | undefined) => restartFrom(build.id, step));
  const again = useNext(() => debugAgain(build.id));
  return (
    <>
      <Action
        leftSection={<Refresh />}
        loading={restart.isPending}
        onClick={() => restart.mutate()}
        disabledReason={
          build.can?.restart ? undefined : `You cannot restart this build: it is ${build.status}.`
        }
      >
        Restart
      </Action>
      {build.can?.restart && (
        <Action
          leftSection={<Refresh />}
          loading={again.isPending}
          onClick={() => again.mutate()}
          disabledReason={undefined}
        >
          Restart in debug mode
        </Action>
      )}
      {build.can?.restartFromFailed && (
        <Action
          leftSection={<Refresh />}
          loading={goOn.isPending}
          onClick={() => goOn.mutate(undefined)}
          disabledReason={undefined}
        >
          Restart from failed step
        </Action>
      )}
      <Action
        leftSection={<Stop />}
        onClick={ask.open}
        disabledReason={
          build.can?.terminate ? undefined : `There is nothing to terminate: the build is ${build.status}.`
        }
      >
        Terminate
      </Action>
      <Confirm
        opened={asking}
        onClose={ask.close}
        title="Terminate this build?"
        verb="Terminate"
        danger
        action={() => terminateBuild(build.id)}
      >
        Running steps are stopped. What they have already done is not undone.
      </Confirm>
    </>
  );
}
