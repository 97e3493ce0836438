import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Properties;
import org.apache.pulsar.admin.cli.PulsarAdminTool;

/**
 * Apache's own pulsar-admin, run in one process once for each line of the input: the words of a command, separated by
 * spaces. Answers each line with whether the command succeeded. Argument: the web service's URL.
 */
public class PolicyToolDriver extends PulsarAdminTool {
    PolicyToolDriver(Properties properties) throws Exception {
        super(properties);
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.setProperty("webServiceUrl", args[0]);
        PrintStream answers = System.out;
        System.setOut(System.err); // the tool's own output
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = commands.readLine()) != null; ) {
            answers.println(new PolicyToolDriver(properties).run(line.split(" ")));
            answers.flush();
        }
        System.exit(0); // the clients' threads remain
    }
}
