"""REST of schedules of analyses."""

from django.http import HttpRequest, HttpResponse

from admin_ui.analyses import selectors, shapes
from admin_ui.analyses.api import JobsView, LaunchingView, launched
from admin_ui.calls import OF_CLUSTER, Call, Parameter, checked, in_thread
from engine.auth.rights import AUTHENTICATED
from gateway.http.bodies import json_answer, no_content
from gateway.jobs import schedules
from gateway.jobs.models import Schedule
from gateway.jobs.rights import rights_to


class SchedulesView(LaunchingView):
    """The schedules of a cluster; as a run, each is for those who have the right to what it reads."""

    body = shapes.ScheduleRequest
    write_rights = rights_to(launched)
    calls = {
        "get": Call("listSchedules", shapes.Schedules, (OF_CLUSTER,), errors=(404,)),
        "post": Call(
            "createSchedule",
            shapes.ScheduleShape,
            (OF_CLUSTER,),
            body=shapes.ScheduleRequest,
            success=201,
            errors=(400, 404, 409, 422),
        ),
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        """Answer the schedules that the caller may see, the oldest first, each with its newest run."""
        stored = [item async for item in schedules.history(cluster=self.stored_cluster)]
        shown = [schedule for schedule in stored if await self.may_see(schedule)]
        last = await in_thread(schedules.last_runs)([schedule.id for schedule in shown])
        rows = [selectors.schedule_row(item, last.get(item.id)) for item in shown]
        return json_answer({"rows": rows})

    async def post(self, request: HttpRequest) -> HttpResponse:
        """Launch an analysis at set times, as the caller: it needs the right to what is read at each of them."""
        body = checked(shapes.ScheduleRequest, request)
        launch = await self.completed(body["analysis"], body["parameters"])
        schedule = await in_thread(schedules.create)(
            **launch,
            expression=body["cron"],
            every_hours=body["every_hours"],
            user=self.principal,
            cluster=self.stored_cluster,
        )
        return json_answer(selectors.schedule_row(schedule, None), status=201)


class ScheduleView(JobsView):
    """A schedule."""

    write_rights = AUTHENTICATED
    calls = {
        "delete": Call(
            "deleteSchedule",
            parameters=(Parameter("schedule_id", place="path"),),
            success=204,
            errors=(404,),
        )
    }

    async def delete(self, request: HttpRequest, schedule_id: str) -> HttpResponse:
        """End a schedule; its runs stay."""
        schedule: Schedule = await in_thread(schedules.get)(schedule_id=schedule_id)
        if not await self.may_see(schedule):
            raise schedules.no_schedule(schedule_id)
        await in_thread(schedules.delete)(schedule_id=schedule_id)
        return no_content()
