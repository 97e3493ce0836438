import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.client.impl.auth.AuthenticationBasic;

/**
 * Logs in as Apache's own Java client by each kind of credentials, and publishes one message: a line "login NAME OUTCOME"
 * for each, where the outcome is "ok" or the exception's class.
 * Arguments: service URL, TLS service URL, file of the authority, good token, bad token, user, password, certificate, key.
 */
public class IdentityDriver {
    interface Login {
        Authentication get() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        String clear = arguments[0], secured = arguments[1], authority = arguments[2];
        String good = arguments[3], bad = arguments[4], user = arguments[5], password = arguments[6];
        String certificate = arguments[7], key = arguments[8];
        for (String url : new String[] {clear, secured}) {
            String port = url.equals(clear) ? "clear" : "tls";
            login(port + "-token", url, authority, () -> AuthenticationFactory.token(good));
            login(port + "-bad-token", url, authority, () -> AuthenticationFactory.token(bad));
            login(port + "-password", url, authority, () -> basic(user, password));
            login(port + "-wrong-password", url, authority, () -> basic(user, password + "x"));
            login(port + "-none", url, authority, () -> null);
        }
        login("tls-certificate", secured, authority, () -> AuthenticationFactory.TLS(certificate, key));
        System.exit(0);
    }

    private static Authentication basic(String user, String password) throws Exception {
        return AuthenticationFactory.create(
                AuthenticationBasic.class.getName(),
                "{\"userId\":\"" + user + "\",\"password\":\"" + password + "\"}");
    }

    private static void login(String name, String url, String authority, Login login) {
        String outcome = "ok";
        try {
            ClientBuilder builder = PulsarClient.builder().serviceUrl(url).operationTimeout(8, TimeUnit.SECONDS)
                    .lookupTimeout(8, TimeUnit.SECONDS).tlsTrustCertsFilePath(authority)
                    .enableTlsHostnameVerification(true);
            Authentication authentication = login.get();
            if (authentication != null) {
                builder.authentication(authentication);
            }
            try (PulsarClient client = builder.build();
                    Producer<byte[]> producer = client.newProducer().topic("persistent://public/default/java-login").create()) {
                producer.send(new byte[] {1});
            }
        } catch (Exception error) {
            outcome = error.getClass().getSimpleName();
        }
        System.out.println("login " + name + " " + outcome);
    }
}
